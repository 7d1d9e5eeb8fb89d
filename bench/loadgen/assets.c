/* assets.c - create `count` streams with `fan` pull consumers each, one after the other.
 *
 * A stream has a subject of its own, a consumer is durable and acknowledges.
 * The clock of the creations stops with the last answer.  Then nobody says a
 * word: after `settle` seconds the CPU time of the server is read for `seconds`,
 * and its memory at the end.
 */
#define _GNU_SOURCE
#include "dialect.h"

#include <stdio.h>
#include <sys/epoll.h>

static void make_stream(struct link *l, uint64_t number)
{
    char subject[64];
    snprintf(subject, sizeof subject, "$JS.API.STREAM.CREATE." NAME "-%06llu", (unsigned long long)number);
    jetstream_ask(l, subject,
                  "{\"name\":\"" NAME "-%06llu\",\"subjects\":[\"" NAME ".%06llu.>\"],\"retention\":\"limits\","
                  "\"storage\":\"file\",\"discard\":\"old\",\"num_replicas\":1,\"max_consumers\":-1,"
                  "\"max_msgs\":-1,\"max_bytes\":-1,\"max_age\":0}",
                  (unsigned long long)number, (unsigned long long)number);
}

static void make_consumer(struct link *l, uint64_t number, int consumer)
{
    char subject[96];
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.DURABLE.CREATE." NAME "-%06llu.c%06d",
             (unsigned long long)number, consumer);
    jetstream_ask(l, subject,
                  "{\"stream_name\":\"" NAME "-%06llu\",\"config\":{\"durable_name\":\"c%06d\","
                  "\"deliver_policy\":\"all\",\"ack_policy\":\"explicit\",\"replay_policy\":\"instant\"}}",
                  (unsigned long long)number, consumer);
}

/* Reads what comes until that moment: a PING of the server at most. */
static void wait_until(struct link *l, int64_t end)
{
    while (now_ns() < end)
        link_work(l, 50);
}

void run_assets(const struct options *o)
{
    struct usage from, to, idle_from, idle_to;
    long rss_before, pss_before, rss_after, pss_after;
    struct link *l;
    if (o->dialect != SPEAK_JETSTREAM || !o->pid || o->count > 999999)
        fail("assets: --speak jetstream, --pid, a --count of at most 999999");
    l = link_open(o, epoll_create1(EPOLL_CLOEXEC), 0);
    link_sync(l);
    memory_of(o->pid, &rss_before, &pss_before);
    from = usage_now(o->pid);
    for (uint64_t i = 0; i < o->count; i++) {
        make_stream(l, i);
        for (int j = 0; j < o->fan; j++)
            make_consumer(l, i, j);
    }
    to = usage_now(o->pid);
    wait_until(l, now_ns() + (int64_t)(o->settle * 1e9));
    idle_from = usage_now(o->pid);
    wait_until(l, now_ns() + (int64_t)(o->seconds * 1e9));
    idle_to = usage_now(o->pid);
    memory_of(o->pid, &rss_after, &pss_after);
    printf("{\"created\": %llu, \"rss_before_kb\": %ld, \"pss_before_kb\": %ld, \"rss_after_kb\": %ld, "
           "\"pss_after_kb\": %ld, \"idle_seconds\": %.6f, \"idle_cpu_ns\": %lld, ",
           (unsigned long long)o->count * (unsigned long long)(o->fan + 1), rss_before, pss_before, rss_after,
           pss_after, (double)(idle_to.wall_ns - idle_from.wall_ns) / 1e9,
           (long long)(idle_to.server_cpu_ns - idle_from.server_cpu_ns));
    print_usage(&from, &to);
    printf("}\n");
}
