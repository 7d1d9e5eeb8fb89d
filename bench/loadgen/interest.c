/* interest.c - subscriptions made known to another node of a mesh.
 *
 * One connection subscribes to `count` subjects, and to one more behind them; a
 * connection at the far node publishes to that last one until a message comes.
 * Interest keeps its order between two nodes, so the far node knows all of it
 * then.  The time runs from the first subscription written to that message.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { LINE_MAX_BYTES = 64 };

static size_t subscriptions(char *text, uint64_t count)
{
    size_t n = 0;
    for (uint64_t i = 0; i < count; i++)
        n += (size_t)sprintf(text + n, "SUB bench.%llu.interest %llu\r\n", (unsigned long long)i,
                             (unsigned long long)i + 2);
    return n + (size_t)sprintf(text + n, "SUB bench.all 1\r\n");
}

void run_interest(const struct options *o)
{
    static const char PUBLISH[] = "PUB bench.all 0\r\n\r\n";
    struct usage from, to;
    if (o->far_port == o->port || o->count > 10000000)
        fail("interest: --far-port, and a --count of at most 10,000,000");
    int epfd = epoll_create1(EPOLL_CLOEXEC);
    char *text = must_alloc((size_t)(o->count + 1) * LINE_MAX_BYTES);
    struct conn *telling = conn_open(o->port), *asking = conn_open(o->far_port);
    await_interest(o->port, o->far_port); /* the nodes are connected */
    telling->shape = shape_new("MSG bench.all 1 0\r\n", "", 0);
    telling->bulk = text;
    telling->bulk_len = subscriptions(text, o->count);
    conn_async(telling, epfd);
    conn_async(asking, epfd);
    from = usage_now(o->pid);
    while (!telling->received) {
        if (telling->writable && telling->bulk_len)
            conn_write_bulk(telling);
        if (!telling->bulk_len && !asking->out_len)
            conn_put(asking, PUBLISH, strlen(PUBLISH));
        conn_flush(asking);
        conns_poll(epfd, telling->writable && telling->bulk_len ? 0 : 1, 0);
        deadline_check(now_ns());
        while (telling->readable)
            conn_read(telling);
        while (asking->readable)
            conn_read(asking);
    }
    to = usage_now(o->pid);
    printf("{\"told\": %llu, ", (unsigned long long)o->count);
    print_usage(&from, &to);
    printf("}\n");
}
