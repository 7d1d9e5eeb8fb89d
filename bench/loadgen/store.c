/* store.c - publish to a stored stream and wait for its acknowledgements.
 *
 * Each publisher is one connection with `inflight` messages that are not
 * acknowledged yet: 1 waits for each, 500 is a window.  NATS Streaming's PubMsg
 * has a guid each; JetStream's reply subject ends in the number of the message.
 * Every acknowledgement must name one message on its way, and be no error; at
 * the end the stream must hold exactly what was acknowledged.  A latency runs
 * from the moment a message is put into its connection's output to the moment
 * its acknowledgement is read.  With `subjects` JetStream's messages go round so
 * many of them, and the memory of the server is read `settle` seconds after the end.
 * With `ids` each has a Nats-Msg-Id; with `memory` the stream is kept in memory.
 * With `rate` no more are sent than so many a second, counted from the start of a phase: what a server that
 * stood still is behind then is sent at once.
 */
#define _GNU_SOURCE
#include "dialect.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

enum { INFLIGHT_MAX = 16384, PAYLOAD_MAX = 3072, GUID = 22, BLOCK = 64 * 1024 };

struct slot {
    uint64_t number;
    int64_t sent_ns;
    bool waits;
};

struct publisher {
    struct link *link;
    char *frame, *block;
    size_t frame_len, token_at, prefix_len;
    size_t subject_at; /* where the number of the subject is; 0: there is one subject */
    size_t id_at;      /* where the number of the Nats-Msg-Id is; 0: there is none */
    char prefix[32]; /* of a guid, or of a reply subject: the token follows */
    uint64_t sent, acked, limit;
    uint64_t begun; /* messages that it had sent when the phase began */
    uint64_t due; /* messages that the rate lets it have sent by now */
    struct slot *ring; /* twice `inflight`, for acknowledgements out of order */
    uint64_t ring_size;
};

static struct {
    const struct options *o;
    int epfd;
    struct publisher *publishers;
    struct latencies latencies;
    char body[PAYLOAD_MAX];
} s;

/* ---- acknowledgements --------------------------------------------------- */

static void acknowledge(struct publisher *p, const char *token)
{
    uint64_t number = 0;
    for (int i = 0; i < TOKEN; i++) {
        if (token[i] < '0' || token[i] > '9')
            fail("an acknowledgement of %.*s", TOKEN, token);
        number = number * 10 + (uint64_t)(token[i] - '0');
    }
    struct slot *slot = &p->ring[number % p->ring_size];
    if (!slot->waits || slot->number != number)
        fail("an acknowledgement of message %llu, which was not on its way", (unsigned long long)number);
    slot->waits = false;
    p->acked++;
    latencies_add(&s.latencies, now_ns() - slot->sent_ns);
}

static void on_stan_ack(struct link *l, const struct message *m)
{
    struct publisher *p = l->owner;
    const char *at = m->body, *guid = NULL;
    struct field f;
    while (next_field(&at, m->body + m->body_len, &f)) {
        if (f.number == 2 && f.bytes)
            fail("the server answered %.*s", (int)f.len, f.bytes);
        if (f.number == 1 && f.len == GUID)
            guid = f.bytes;
    }
    if (!guid || memcmp(guid, p->prefix, p->prefix_len))
        fail("an acknowledgement without a guid of this publisher");
    acknowledge(p, guid + p->prefix_len);
}

/* {"stream":"bench","seq":17}; an error has "error", a repetition "duplicate". */
static void on_jetstream_ack(struct link *l, const struct message *m)
{
    static const char STREAM[] = "{\"stream\":\"" NAME "\",", SEQ[] = "\"seq\":";
    struct publisher *p = l->owner;
    if (m->headers_len || m->body_len < sizeof STREAM || memcmp(m->body, STREAM, sizeof STREAM - 1) ||
        !memmem(m->body, m->body_len, SEQ, sizeof SEQ - 1) || memmem(m->body, m->body_len, "\"error\"", 7) ||
        memmem(m->body, m->body_len, "\"duplicate\"", 11))
        fail("the server answered %.*s%.*s", (int)m->headers_len, m->headers, (int)m->body_len, m->body);
    if (m->subject_len != p->prefix_len + TOKEN || memcmp(m->subject, p->prefix, p->prefix_len))
        fail("an acknowledgement on %.*s", (int)m->subject_len, m->subject);
    acknowledge(p, m->subject + p->prefix_len);
}

/* ---- publishing --------------------------------------------------------- */

static uint64_t on_the_way(const struct publisher *p) { return p->sent - p->acked; }

static bool may_send(const struct publisher *p)
{
    return p->sent < p->limit && p->sent < p->due && on_the_way(p) < (uint64_t)s.o->inflight &&
           !p->ring[p->sent % p->ring_size].waits;
}

/* Puts the messages there is room for into one block. */
static void fill(struct publisher *p)
{
    size_t n = 0;
    int64_t now = now_ns();
    for (; may_send(p) && n + p->frame_len <= BLOCK; n += p->frame_len, p->sent++) {
        memcpy(p->block + n, p->frame, p->frame_len);
        put_token(p->block + n + p->token_at, p->sent);
        if (p->subject_at)
            put_token(p->block + n + p->subject_at, p->sent % s.o->subjects);
        if (p->id_at)
            put_token(p->block + n + p->id_at, p->sent);
        p->ring[p->sent % p->ring_size] = (struct slot){p->sent, now, true};
    }
    p->link->conn->bulk = p->block;
    p->link->conn->bulk_len = n;
}

static void work(struct publisher *p)
{
    struct conn *c = p->link->conn;
    while (c->readable)
        conn_read(c);
    do {
        if (!c->bulk_len) {
            conn_flush(c);
            if (!c->out_len)
                fill(p);
        }
        if (c->bulk_len && c->writable)
            conn_write_bulk(c);
    } while (c->writable && !c->bulk_len && may_send(p));
}

static bool is_complete(void)
{
    for (int i = 0; i < s.o->flows; i++)
        if (s.publishers[i].sent < s.publishers[i].limit || on_the_way(&s.publishers[i]))
            return false;
    return true;
}

/* What a publisher that had sent `before` at `start_ns` may have sent by now. */
static uint64_t due(uint64_t before, int64_t start_ns, int64_t now)
{
    if (!s.o->rate)
        return UINT64_MAX;
    return before + (uint64_t)((double)(now - start_ns) / 1e9 * s.o->rate / s.o->flows);
}

static uint64_t run_phase(double seconds, uint64_t count, struct usage *from, struct usage *to)
{
    uint64_t before = 0, after = 0;
    latencies_clear(&s.latencies);
    for (int i = 0; i < s.o->flows; i++) {
        before += s.publishers[i].acked;
        s.publishers[i].begun = s.publishers[i].sent;
        s.publishers[i].limit = s.publishers[i].sent + count;
    }
    *from = usage_now(s.o->pid);
    int64_t stop = from->wall_ns + (int64_t)(seconds * 1e9);
    while (!is_complete()) {
        int64_t now = now_ns();
        deadline_check(now);
        for (int i = 0; i < s.o->flows; i++) {
            if (now >= stop && s.publishers[i].sent < s.publishers[i].limit)
                s.publishers[i].limit = s.publishers[i].sent;
            s.publishers[i].due = due(s.publishers[i].begun, from->wall_ns, now);
            work(&s.publishers[i]);
        }
        if (!is_complete())
            conns_poll(s.epfd, s.o->rate ? 1 : 100, 0);
    }
    *to = usage_now(s.o->pid);
    for (int i = 0; i < s.o->flows; i++)
        after += s.publishers[i].acked;
    return after - before;
}

/* ---- building ----------------------------------------------------------- */

static void build_stan(struct publisher *p)
{
    char message[PAYLOAD_MAX + 256], guid[64], inbox[32], *end = message;
    struct link *l = p->link;
    snprintf(inbox, sizeof inbox, "_STAN.acks.a%03d", l->number);
    p->prefix_len = (size_t)snprintf(p->prefix, sizeof p->prefix, NAME "%03dGUID", l->number);
    snprintf(guid, sizeof guid, "%s0000000000", p->prefix);
    end = put_text(end, 1, l->client_id);
    end = put_bytes(end, 2, guid, GUID);
    size_t guid_end = (size_t)(end - message);
    end = put_text(end, 3, NAME);
    if (s.o->payload)
        end = put_bytes(end, 5, s.body, s.o->payload);
    end = put_text(end, 6, l->conn_id);
    size_t n = (size_t)(end - message);
    int head = sprintf(p->frame, "PUB %s." NAME " %s %zu\r\n", l->publish, inbox, n);
    memcpy(p->frame + head, message, n);
    memcpy(p->frame + head + n, "\r\n", 2);
    p->frame_len = (size_t)head + n + 2;
    p->token_at = (size_t)head + guid_end - TOKEN;
    l->on_data = on_stan_ack;
    link_listen(l, inbox);
}

static void build_jetstream(struct publisher *p)
{
    char inbox[64], headers[64] = "";
    struct link *l = p->link;
    p->prefix_len = (size_t)snprintf(p->prefix, sizeof p->prefix, "_INBOX.a%03d.", l->number);
    const char *subject = s.o->subjects ? NAME ".0000000000" : NAME, *op = s.o->ids ? "HPUB " : "PUB ";
    int head = sprintf(p->frame, "%s%s %s0000000000 ", op, subject, p->prefix);
    p->token_at = (size_t)head - 1 - TOKEN;
    p->subject_at = s.o->subjects ? strlen(op) + strlen(NAME ".") : 0;
    if (s.o->ids) {
        int n = sprintf(headers, "NATS/1.0\r\nNats-Msg-Id: a%03d-0000000000\r\n\r\n", l->number);
        head += sprintf(p->frame + head, "%d %zu\r\n%s", n, (size_t)n + s.o->payload, headers);
        p->id_at = (size_t)head - strlen("\r\n\r\n") - TOKEN;
    } else {
        head += sprintf(p->frame + head, "%zu\r\n", s.o->payload);
    }
    memcpy(p->frame + head, s.body, s.o->payload);
    memcpy(p->frame + head + s.o->payload, "\r\n", 2);
    p->frame_len = (size_t)head + s.o->payload + 2;
    l->on_data = on_jetstream_ack;
    snprintf(inbox, sizeof inbox, "%s*", p->prefix);
    link_listen(l, inbox);
}

static void build(void)
{
    for (int i = 0; i < s.o->flows; i++) {
        struct publisher *p = &s.publishers[i];
        p->link = link_open(s.o, s.epfd, i);
        p->link->owner = p;
        p->frame = must_alloc(PAYLOAD_MAX + 1024);
        p->block = must_alloc(BLOCK);
        p->ring_size = 2 * (uint64_t)s.o->inflight;
        p->ring = must_alloc(sizeof *p->ring * p->ring_size);
        if (s.o->dialect == SPEAK_JETSTREAM && !i)
            jetstream_ask(p->link, "$JS.API.STREAM.CREATE." NAME,
                          "{\"name\":\"" NAME "\",\"subjects\":[\"%s\"],\"retention\":\"limits\","
                          "\"storage\":\"%s\",\"discard\":\"old\",\"num_replicas\":%d,\"max_consumers\":-1,"
                          "\"max_msgs\":-1,\"max_bytes\":-1,\"max_age\":0}",
                          s.o->subjects ? NAME ".*" : NAME, s.o->memory ? "memory" : "file", s.o->replicas);
        if (s.o->dialect == SPEAK_JETSTREAM)
            build_jetstream(p);
        else
            build_stan(p);
    }
}

/* ---- what was stored ---------------------------------------------------- */

static uint64_t last_sequence;

static void on_last(struct link *l, const struct message *m)
{
    const char *at = m->body;
    struct field f;
    (void)l;
    while (next_field(&at, m->body + m->body_len, &f))
        if (f.number == 1)
            last_sequence = f.value;
}

/* The sequence of the newest message: with none deleted, also how many there are. */
static uint64_t stored(struct link *l)
{
    char ack_inbox[STAN_SUBJECT_MAX];
    if (s.o->dialect == SPEAK_JETSTREAM) {
        jetstream_ask(l, "$JS.API.STREAM.INFO." NAME, "%s", "");
        uint64_t messages = answer_number(l, "messages");
        return messages == answer_number(l, "last_seq") ? messages : 0;
    }
    l->on_data = on_last;
    link_listen(l, "_INBOX.last");
    stan_subscribe(l, "_INBOX.last", 1, "", START_LAST_RECEIVED, ack_inbox);
    while (!last_sequence)
        link_work(l, 100);
    stan_unsubscribe(l, l->unsubscribe, ack_inbox, "");
    return last_sequence;
}

static long rss_before, pss_before;

static void print_memory(void)
{
    long rss, pss;
    for (int64_t end = now_ns() + (int64_t)(s.o->settle * 1e9); now_ns() < end;)
        link_work(s.publishers[0].link, 50);
    memory_of(s.o->pid, &rss, &pss);
    printf("\"rss_before_kb\": %ld, \"pss_before_kb\": %ld, \"rss_after_kb\": %ld, \"pss_after_kb\": %ld, ",
           rss_before, pss_before, rss, pss);
}

void run_store(const struct options *o)
{
    struct usage from, to;
    uint64_t all = 0, published;
    if (o->payload > PAYLOAD_MAX || o->inflight > INFLIGHT_MAX || o->flows < 1 || o->flows > 999 ||
        (o->dialect != SPEAK_STAN && o->dialect != SPEAK_JETSTREAM) ||
        (o->subjects && (o->dialect != SPEAK_JETSTREAM || !o->pid)) ||
        ((o->ids || o->memory) && o->dialect != SPEAK_JETSTREAM))
        fail("store: --speak stan or jetstream, at most %d bytes, %d in flight, 1 to 999 publishers; "
             "--subjects with jetstream and --pid, --ids and --memory with jetstream",
             PAYLOAD_MAX, INFLIGHT_MAX);
    for (size_t i = 0; i < o->payload; i++)
        s.body[i] = (char)('a' + i % 26);
    s.o = o;
    s.epfd = epoll_create1(EPOLL_CLOEXEC);
    s.publishers = must_alloc(sizeof *s.publishers * (size_t)o->flows);
    if (o->subjects)
        memory_of(o->pid, &rss_before, &pss_before);
    build();
    if (o->warmup > 0)
        all = run_phase(o->warmup, o->count, &from, &to);
    published = run_phase(o->seconds, o->count, &from, &to);
    if (!published)
        fail("no message was acknowledged");
    all += published;
    uint64_t found = stored(s.publishers[0].link);
    if (found != all)
        fail("%llu messages were acknowledged, %llu are stored", (unsigned long long)all,
             (unsigned long long)found);
    for (int i = 0; i < o->flows; i++)
        link_leave(s.publishers[i].link);
    printf("{\"published\": %llu, ", (unsigned long long)published);
    latencies_print(&s.latencies);
    if (o->subjects)
        print_memory();
    print_usage(&from, &to);
    printf("}\n");
}
