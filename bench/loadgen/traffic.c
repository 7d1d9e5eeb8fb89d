/* traffic.c - streams of messages at full rate, counted exactly.
 *
 * A flow is one publisher and its subscribers.
 *   publish     F flows with no subscriber
 *   fan-out     one flow with N subscribers (1:1 is N = 1), or F flows (pairs)
 *   wildcards   one flow over W wildcard subscriptions on several connections;
 *               subjects are drawn at random, each hits one subscription
 *   churn       beside any of these, or alone: one more connection that
 *               subscribes and unsubscribes, paced or as fast as possible
 *
 * A phase publishes for a time (or a count), then every publisher sends PING
 * and waits for PONG, every subscriber must have received exactly what was
 * sent to it, and nothing more may arrive before the PONG of its own PING.
 * The warm-up is a phase of its own and is not counted.
 *
 * With --far-port the subscribers are at another node of a mesh. With --spread the server is several processes,
 * and nobody knows which connection is whose: a flow begins when its publisher reaches all its subscribers.
 *
 * A publisher pauses while one of its subscribers is `window` bytes behind, so
 * that no run measures how a server cuts off slow consumers.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { RANDOM_FRAMES = 65536, CHURN_BLOCK = 512, CHURN_SUBJECTS = 10000, SID_BASE = 10000 };

struct flow {
    struct conn *publisher;
    struct conn **subscribers;
    int subscriber_count;
    const char *block; /* whole frames, written again and again */
    size_t block_frames, frame_len, window_frames;
    uint64_t begun; /* frames of all blocks begun, less what was cut off */
    uint64_t limit;
    const uint8_t *target; /* wildcards: the subscriber of each frame of the block */
    bool held, asked;
};

struct churn {
    struct conn *conn;
    long per_second;
    uint64_t pairs, made; /* this phase; ever (numbers the sids) */
    int64_t last_ns;      /* from the start of the phase to the last pair */
    char text[WRITE_SIZE];
    bool asked;
};

struct traffic {
    const struct options *o;
    int epfd, flow_count, conn_count;
    struct flow *flows;
    struct conn **conns;
    struct churn *churn;
    char *body; /* headers and payload */
    size_t body_len, headers_len;
};

static const char HEADERS[] = "NATS/1.0\r\nBench-Run: headrace\r\n\r\n";

/* ---- building ----------------------------------------------------------- */

static struct conn *add_conn(struct traffic *t, int port)
{
    struct conn *c = conn_open(port);
    t->conns = realloc(t->conns, sizeof *t->conns * (size_t)(t->conn_count + 1));
    if (!t->conns)
        fail("out of memory");
    t->conns[t->conn_count++] = c;
    return c;
}

static void make_body(struct traffic *t)
{
    t->headers_len = t->o->headers ? strlen(HEADERS) : 0;
    t->body_len = t->headers_len + t->o->payload;
    t->body = must_alloc(t->body_len + 1);
    memcpy(t->body, HEADERS, t->headers_len);
    for (size_t i = 0; i < t->o->payload; i++)
        t->body[t->headers_len + i] = (char)('a' + i % 26);
}

/* Writes one frame to publish; returns its length. */
static size_t put_frame(const struct traffic *t, char *to, const char *subject)
{
    int n = t->o->headers ? sprintf(to, "HPUB %s %zu %zu\r\n", subject, t->headers_len, t->body_len)
                          : sprintf(to, "PUB %s %zu\r\n", subject, t->body_len);
    memcpy(to + n, t->body, t->body_len);
    memcpy(to + n + t->body_len, "\r\n", 2);
    return (size_t)n + t->body_len + 2;
}

static struct shape *message_shape(const struct traffic *t, const char *subject, const char *sid)
{
    char head[256];
    if (t->o->headers)
        snprintf(head, sizeof head, "HMSG %s %s %zu %zu\r\n", subject, sid, t->headers_len, t->body_len);
    else
        snprintf(head, sizeof head, "MSG %s %s %zu\r\n", subject, sid, t->body_len);
    return shape_new(head, t->body, t->body_len);
}

static void set_window(const struct traffic *t, struct flow *f)
{
    f->window_frames = t->o->window / f->frame_len;
    if (f->window_frames < 2)
        f->window_frames = 2;
}

static void build_flow(struct traffic *t, struct flow *f, int number)
{
    char subject[64], line[128];
    snprintf(subject, sizeof subject, "bench.f%02d", number);
    char *block = must_alloc(WRITE_SIZE + t->body_len + 256);
    f->frame_len = put_frame(t, block, subject);
    for (f->block_frames = 1; (f->block_frames + 1) * f->frame_len <= WRITE_SIZE; f->block_frames++)
        put_frame(t, block + f->block_frames * f->frame_len, subject);
    f->block = block;
    f->publisher = add_conn(t, t->o->port);
    f->subscriber_count = t->o->fan;
    f->subscribers = must_alloc(sizeof *f->subscribers * (size_t)(t->o->fan + 1));
    struct shape *shape = message_shape(t, subject, "1");
    int n = snprintf(line, sizeof line, "SUB %s 1\r\n", subject);
    for (int i = 0; i < t->o->fan; i++) {
        struct conn *c = f->subscribers[i] = add_conn(t, t->o->far_port);
        c->shape = shape;
        conn_send_all(c, line, (size_t)n);
        conn_sync(c);
    }
    set_window(t, f);
}

/* "bench.<number>.*" has the sid <number>; both have five digits. */
static void build_wildcards(struct traffic *t, struct flow *f)
{
    char text[128];
    int conns = t->o->connections;
    memset(text, 0, sizeof text);
    const char *last = t->o->unique ? "........" : "x";
    snprintf(text, sizeof text, "bench.#####.%s", last);
    for (char *p = text; *p; p++)
        if (*p == '#' || (*p == '.' && p > text + 11))
            *p = ANY_BYTE;
    struct shape *shape = message_shape(t, text, "\1\1\1\1\1");
    size_t keyword = t->o->headers ? 5 : 4;
    shape->same_a = keyword + 6;
    shape->same_b = keyword + strlen(text) + 1;
    shape->same_len = 5;
    f->publisher = add_conn(t, t->o->port);
    f->subscriber_count = conns;
    f->subscribers = must_alloc(sizeof *f->subscribers * (size_t)conns);
    for (int i = 0; i < conns; i++) {
        struct conn *c = f->subscribers[i] = add_conn(t, t->o->far_port);
        c->shape = shape;
        for (int w = i; w < t->o->wildcards; w += conns) {
            int n = snprintf(text, sizeof text, "SUB bench.%d.* %d\r\n", SID_BASE + w, SID_BASE + w);
            conn_send_all(c, text, (size_t)n);
        }
        conn_sync(c);
    }
    char *block = must_alloc((size_t)RANDOM_FRAMES * (t->body_len + 64));
    uint8_t *target = must_alloc(RANDOM_FRAMES);
    uint64_t state = 0x9e3779b97f4a7c15ull;
    for (f->block_frames = 0; f->block_frames < RANDOM_FRAMES; f->block_frames++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        int w = (int)((state >> 33) % (uint64_t)t->o->wildcards);
        if (t->o->unique)
            snprintf(text, sizeof text, "bench.%d.%08x", SID_BASE + w, (unsigned)(state >> 16));
        else
            snprintf(text, sizeof text, "bench.%d.x", SID_BASE + w);
        f->frame_len = put_frame(t, block + f->block_frames * f->frame_len, text);
        target[f->block_frames] = (uint8_t)(w % conns);
    }
    f->block = block;
    f->target = target;
    set_window(t, f);
}

/* ---- one phase ---------------------------------------------------------- */

static uint64_t frames_written(const struct flow *f)
{
    size_t left = (f->publisher->bulk_len + f->frame_len - 1) / f->frame_len;
    return f->begun - left;
}

static bool is_behind(const struct flow *f)
{
    if (!f->subscriber_count)
        return false;
    uint64_t written = frames_written(f), least = UINT64_MAX, sum = 0;
    for (int i = 0; i < f->subscriber_count; i++) {
        uint64_t got = f->subscribers[i]->received;
        sum += got;
        least = got < least ? got : least;
    }
    return written > (f->target ? sum : least) + f->window_frames;
}

/* Writes one block; returns true when there is more to do at once. */
static bool pump(struct flow *f, bool stopping)
{
    struct conn *c = f->publisher;
    if (stopping && !f->asked) {
        /* Keep only the frame that is half written. */
        size_t half = c->bulk_len % f->frame_len;
        f->begun -= (c->bulk_len - half) / f->frame_len;
        c->bulk_len = half;
    }
    if (!c->bulk_len) {
        conn_flush(c);
        if (c->out_len)
            return false;
        if (stopping || f->begun >= f->limit) {
            if (!f->asked)
                conn_put(c, "PING\r\n", 6);
            f->asked = true;
            conn_flush(c);
            return false;
        }
        uint64_t left = f->limit - f->begun;
        uint64_t frames = left < f->block_frames ? left : f->block_frames;
        c->bulk = f->block;
        c->bulk_len = (size_t)frames * f->frame_len;
        f->begun += frames;
    }
    f->held = is_behind(f);
    if (f->held || !c->writable)
        return false;
    conn_write_bulk(c);
    return c->writable;
}

static void put_number(char *end, uint64_t value, int digits)
{
    for (; digits; digits--, value /= 10)
        *--end = (char)('0' + value % 10);
}

/* Appends one "SUB churn.<5> <9>" and its UNSUB; returns the bytes. */
static size_t put_churn(char *to, uint64_t number)
{
    static const char line[] = "SUB churn.00000 000000000\r\nUNSUB 000000000\r\n";
    memcpy(to, line, sizeof line - 1);
    put_number(to + 15, number % CHURN_SUBJECTS, 5);
    put_number(to + 25, number % 1000000000, 9);
    put_number(to + 42, number % 1000000000, 9);
    return sizeof line - 1;
}

static bool pump_churn(struct churn *h, int64_t elapsed_ns, bool stopping)
{
    struct conn *c = h->conn;
    if (!c->bulk_len) {
        conn_flush(c);
        if (c->out_len)
            return false;
        if (stopping) {
            if (!h->asked)
                conn_put(c, "PING\r\n", 6);
            h->asked = true;
            conn_flush(c);
            return false;
        }
        uint64_t due = CHURN_BLOCK;
        if (h->per_second) {
            uint64_t plan = (uint64_t)((double)elapsed_ns * 1e-9 * (double)h->per_second);
            due = plan > h->pairs ? plan - h->pairs : 0;
            due = due < CHURN_BLOCK ? due : CHURN_BLOCK;
        }
        if (!due)
            return false;
        size_t n = 0;
        for (uint64_t i = 0; i < due; i++)
            n += put_churn(h->text + n, h->made++);
        h->pairs += due;
        h->last_ns = elapsed_ns;
        c->bulk = h->text;
        c->bulk_len = n;
    }
    if (c->writable)
        conn_write_bulk(c);
    return c->writable && (c->bulk_len || !h->per_second);
}

static bool is_complete(const struct traffic *t)
{
    for (int i = 0; i < t->flow_count; i++) {
        const struct flow *f = &t->flows[i];
        if (!f->asked || !f->publisher->pongs)
            return false;
        uint64_t sum = 0;
        for (int s = 0; s < f->subscriber_count; s++) {
            uint64_t got = f->subscribers[s]->received;
            sum += got;
            if (!f->target && got < f->begun)
                return false;
        }
        if (f->target && sum < f->begun)
            return false;
    }
    return !t->churn || t->churn->conn->pongs;
}

/* Reads everything that is ready; returns true when more is. */
static bool read_ready(struct traffic *t)
{
    bool more = false;
    for (int i = 0; i < t->conn_count; i++) {
        struct conn *c = t->conns[i];
        if (c->readable)
            conn_read(c);
        more |= c->readable;
        if (c->out_len && !c->bulk_len)
            conn_flush(c);
    }
    return more;
}

static void check_counts(const struct flow *f)
{
    uint64_t *expected = must_alloc(sizeof *expected * (size_t)(f->subscriber_count + 1));
    for (int i = 0; i < f->subscriber_count; i++)
        expected[i] = f->target ? 0 : f->begun;
    if (f->target) {
        uint64_t rounds = f->begun / f->block_frames, part = f->begun % f->block_frames;
        for (size_t i = 0; i < f->block_frames; i++)
            expected[f->target[i]] += rounds + (i < part);
    }
    for (int i = 0; i < f->subscriber_count; i++)
        if (f->subscribers[i]->received != expected[i] || f->subscribers[i]->skip)
            fail("subscriber %d received %llu messages, expected %llu", i,
                 (unsigned long long)f->subscribers[i]->received, (unsigned long long)expected[i]);
    free(expected);
}

/* After the clock stopped: nothing may be left on its way. */
static void settle(struct traffic *t)
{
    for (int i = 0; i < t->conn_count; i++) {
        t->conns[i]->pongs = 0;
        conn_put(t->conns[i], "PING\r\n", 6);
        conn_flush(t->conns[i]);
    }
    for (int i = 0; i < t->conn_count; i++)
        while (!t->conns[i]->pongs) {
            if (!read_ready(t))
                conns_poll(t->epfd, 100, 0);
            deadline_check(now_ns());
        }
    for (int i = 0; i < t->flow_count; i++)
        check_counts(&t->flows[i]);
}

static void begin_phase(struct traffic *t, uint64_t count)
{
    for (int i = 0; i < t->conn_count; i++)
        t->conns[i]->received = t->conns[i]->pongs = 0;
    for (int i = 0; i < t->flow_count; i++) {
        t->flows[i].begun = 0;
        t->flows[i].limit = count;
        t->flows[i].asked = false;
    }
    if (t->churn) {
        t->churn->pairs = 0;
        t->churn->asked = false;
    }
}

static void run_phase(struct traffic *t, double seconds, uint64_t count, struct usage *from,
                      struct usage *to)
{
    begin_phase(t, count);
    *from = usage_now(t->o->pid);
    int64_t stop = from->wall_ns + (int64_t)(seconds * 1e9);
    while (!is_complete(t)) {
        int64_t now = now_ns();
        deadline_check(now);
        bool more = read_ready(t), stopping = now >= stop, done = true;
        for (int i = 0; i < t->flow_count; i++) {
            more |= pump(&t->flows[i], stopping);
            done &= t->flows[i].asked;
        }
        if (t->churn)
            more |= pump_churn(t->churn, now - from->wall_ns, stopping || (t->flow_count && done));
        bool paced = t->churn && t->churn->per_second && !t->churn->asked;
        conns_poll(t->epfd, more ? 0 : paced ? 1 : 100, 0);
    }
    *to = usage_now(t->o->pid);
    settle(t);
}

/* ---- a server of several processes ------------------------------------------ */

static bool all_reached(const struct flow *f)
{
    for (int i = 0; i < f->subscriber_count; i++)
        if (!f->subscribers[i]->received)
            return false;
    return true;
}

/* What a subscriber wants is known where its publisher is when a message has come.
 * At the end nothing is on its way: for a tenth of a second nothing has come. */
static void await_spread(struct traffic *t)
{
    for (int i = 0; i < t->flow_count; i++) {
        struct flow *f = &t->flows[i];
        while (!all_reached(f)) {
            f->publisher->bulk = f->block;
            f->publisher->bulk_len = f->frame_len;
            while (f->publisher->bulk_len) {
                conn_write_bulk(f->publisher);
                conns_poll(t->epfd, 5, 0);
            }
            read_ready(t);
            deadline_check(now_ns());
        }
    }
    for (int64_t quiet = now_ns(); now_ns() < quiet + 100000000;) {
        conns_poll(t->epfd, 10, 0);
        for (int i = 0; i < t->conn_count; i++)
            if (t->conns[i]->readable)
                quiet = now_ns();
        read_ready(t);
    }
}

/* ---- the mode ----------------------------------------------------------- */

void run_traffic(const struct options *o)
{
    struct traffic t = {.o = o, .epfd = epoll_create1(EPOLL_CLOEXEC)};
    struct usage from, to;
    uint64_t published = 0, delivered = 0;
    make_body(&t);
    t.flow_count = o->wildcards ? 1 : o->flows;
    t.flows = must_alloc(sizeof *t.flows * (size_t)(t.flow_count + 1));
    if (o->wildcards)
        build_wildcards(&t, &t.flows[0]);
    else
        for (int i = 0; i < o->flows; i++)
            build_flow(&t, &t.flows[i], i);
    if (o->churn >= 0) {
        t.churn = must_alloc(sizeof *t.churn);
        t.churn->conn = add_conn(&t, o->port);
        t.churn->per_second = o->churn;
    }
    if (o->far_port != o->port)
        await_interest(o->far_port, o->port);
    for (int i = 0; i < t.conn_count; i++)
        conn_async(t.conns[i], t.epfd);
    if (o->spread)
        await_spread(&t);
    if (o->warmup > 0)
        run_phase(&t, o->warmup, o->count, &from, &to);
    run_phase(&t, o->seconds, o->count, &from, &to);
    for (int i = 0; i < t.flow_count; i++) {
        published += t.flows[i].begun;
        for (int s = 0; s < t.flows[i].subscriber_count; s++)
            delivered += t.flows[i].subscribers[s]->received;
    }
    printf("{\"published\": %llu, \"delivered\": %llu, ", (unsigned long long)published,
           (unsigned long long)delivered);
    if (t.churn)
        printf("\"churned\": %llu, \"churn_seconds\": %.6f, ", (unsigned long long)t.churn->pairs,
               (double)t.churn->last_ns / 1e9);
    print_usage(&from, &to);
    printf("}\n");
}
