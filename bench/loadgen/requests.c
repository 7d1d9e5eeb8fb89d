/* requests.c - request-reply with latencies.
 *
 * Each requester has one wildcard subscription "_INBOX.<id>.*" and asks with a
 * new reply subject every time, as the client libraries do; a responder on its
 * own connection answers.  `inflight` requests of each requester are on their
 * way at any moment.  A latency runs from the moment a request is put into
 * its connection's output to the moment its reply is read.  With --far-port
 * the responder is at another node of a mesh.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

enum { RING = 1024 };

struct requester {
    struct conn *conn;
    char request[256]; /* head with the place of the token, then the body */
    size_t request_len, token_at;
    uint64_t asked, answered;
    int64_t sent_ns[RING];
};

static struct {
    const struct options *o;
    int epfd;
    struct conn *responder;
    struct requester *requesters;
    struct latencies latencies;
    bool stopping;
    size_t reply_at, reply_len, body_at; /* in the frame the responder receives */
} r;

/* ---- requests ----------------------------------------------------------- */

static void ask(struct requester *q)
{
    put_token(q->request + q->token_at, q->asked);
    q->sent_ns[q->asked % RING] = now_ns();
    q->asked++;
    conn_put(q->conn, q->request, q->request_len);
}

static bool may_ask(const struct requester *q) { return !r.stopping && q->asked < r.o->count; }

static void on_reply(struct conn *c, const char *frame)
{
    struct requester *q = &r.requesters[c->number];
    char expected[TOKEN];
    /* Replies of one responder come back in order. */
    put_token(expected, q->answered);
    if (memcmp(frame + strlen("MSG _INBOX.r000."), expected, TOKEN))
        fail("a reply out of order: %.40s", frame);
    latencies_add(&r.latencies, now_ns() - q->sent_ns[q->answered % RING]);
    q->answered++;
    if (may_ask(q))
        ask(q);
}

static void on_request(struct conn *c, const char *frame)
{
    char head[64];
    int n = snprintf(head, sizeof head, "PUB %.*s %zu\r\n", (int)r.reply_len, frame + r.reply_at,
                     r.o->payload);
    conn_put(c, head, (size_t)n);
    conn_put(c, frame + r.body_at, r.o->payload + 2);
}

static bool is_complete(void)
{
    for (int i = 0; i < r.o->flows; i++)
        if (may_ask(&r.requesters[i]) || r.requesters[i].answered < r.requesters[i].asked)
            return false;
    return true;
}

static void serve(struct conn *c)
{
    while (c->readable)
        conn_read(c);
    conn_flush(c);
}

static void run_phase(double seconds, struct usage *from, struct usage *to)
{
    latencies_clear(&r.latencies);
    r.stopping = false;
    *from = usage_now(r.o->pid);
    for (int i = 0; i < r.o->flows; i++) {
        r.requesters[i].asked = r.requesters[i].answered = 0;
        for (int k = 0; k < r.o->inflight && may_ask(&r.requesters[i]); k++)
            ask(&r.requesters[i]);
        conn_flush(r.requesters[i].conn);
    }
    int64_t stop = from->wall_ns + (int64_t)(seconds * 1e9);
    while (!is_complete()) {
        conns_poll(r.epfd, 100, r.o->spin_us);
        int64_t now = now_ns();
        deadline_check(now);
        r.stopping = now >= stop;
        serve(r.responder);
        for (int i = 0; i < r.o->flows; i++)
            serve(r.requesters[i].conn);
    }
    *to = usage_now(r.o->pid);
}

/* ---- building ----------------------------------------------------------- */

static void build(const char *body)
{
    char head[128];
    size_t n = r.o->payload;
    snprintf(head, sizeof head, "MSG bench.echo 1 _INBOX.r\1\1\1.\1\1\1\1\1\1\1\1\1\1 %zu\r\n", n);
    r.responder = conn_open(r.o->far_port);
    r.responder->shape = shape_new(head, body, n);
    r.responder->on_frame = on_request;
    r.reply_at = strlen("MSG bench.echo 1 ");
    r.reply_len = strlen("_INBOX.r000.") + TOKEN;
    r.body_at = strlen(head);
    conn_send_all(r.responder, "SUB bench.echo 1\r\n", 18);
    conn_sync(r.responder);
    if (r.o->far_port != r.o->port)
        await_interest(r.o->far_port, r.o->port);
    conn_async(r.responder, r.epfd);
    for (int i = 0; i < r.o->flows; i++) {
        struct requester *q = &r.requesters[i];
        struct conn *c = q->conn = conn_open(r.o->port);
        snprintf(head, sizeof head, "MSG _INBOX.r%03d.\1\1\1\1\1\1\1\1\1\1 1 %zu\r\n", i, n);
        c->shape = shape_new(head, body, n);
        c->on_frame = on_reply;
        c->number = i;
        snprintf(head, sizeof head, "SUB _INBOX.r%03d.* 1\r\n", i);
        conn_send_all(c, head, strlen(head));
        conn_sync(c);
        conn_async(c, r.epfd);
        q->token_at = strlen("PUB bench.echo _INBOX.r000.");
        q->request_len = (size_t)snprintf(q->request, sizeof q->request,
                                          "PUB bench.echo _INBOX.r%03d.0000000000 %zu\r\n%.*s\r\n", i, n,
                                          (int)n, body);
    }
}

void run_requests(const struct options *o)
{
    char body[128];
    struct usage from, to;
    if (o->payload > sizeof body || o->inflight > RING || o->flows > 999)
        fail("requests: at most %zu bytes, %d in flight, 999 connections", sizeof body, RING);
    memset(body, 'r', sizeof body);
    r.o = o;
    r.epfd = epoll_create1(EPOLL_CLOEXEC);
    r.requesters = must_alloc(sizeof *r.requesters * (size_t)o->flows);
    build(body);
    if (o->warmup > 0)
        run_phase(o->warmup, &from, &to);
    run_phase(o->seconds, &from, &to);
    if (!r.latencies.measured)
        fail("no request was answered");
    printf("{\"requests\": %llu, ", (unsigned long long)r.latencies.measured);
    latencies_print(&r.latencies);
    print_usage(&from, &to);
    printf("}\n");
}
