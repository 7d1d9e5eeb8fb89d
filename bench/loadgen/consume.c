/* consume.c - read a stored stream of `count` messages, from its first to its last.
 *
 *   --speak stan [--durable]      a subscription of NATS Streaming that acknowledges every message
 *   --speak jetstream --durable   a durable push consumer that acknowledges every message
 *   --speak jetstream             an ordered consumer: no acknowledgements, flow control
 *   --speak jetstream --batch N   a pull consumer that is asked for N at a time, and again when they came;
 *                                 with --durable it acknowledges every message
 *   --speak replay                a request for all of the channel, answered in plain NATS
 *
 * Every message must be the next one, arrive for the first time and have the
 * payload; nothing more may come.  The clock runs from the request until the
 * last message is read and, with acknowledgements, the server has said that it
 * took the last of them.  At most `inflight` messages wait for theirs (a pull
 * consumer has so many at most).
 */
#define _GNU_SOURCE
#include "dialect.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

enum { PAYLOAD_MAX = 3072, ACKS_MAX = 8 << 20, HEARTBEAT_S = 5, CHANNEL = 1 };

static const char INBOX[] = "_INBOX.c000";

static struct {
    const struct options *o;
    struct link *link;
    uint64_t read;  /* the sequence of the last message */
    uint64_t asked; /* pull: the sequence of the last message that was asked for */
    uint64_t acked; /* NATS Streaming: messages come before it is known where their ack goes */
    bool ended;    /* replay: the server said that this was all */
    char body[PAYLOAD_MAX];
    char ack_inbox[STAN_SUBJECT_MAX];
    char ack_head[STAN_SUBJECT_MAX + 8];
    size_t ack_head_len;
} u;

static void take(uint64_t sequence, const char *body, size_t n)
{
    if (sequence != u.read + 1 || sequence > u.o->count)
        fail("message %llu came after message %llu", (unsigned long long)sequence,
             (unsigned long long)u.read);
    if (n != u.o->payload || memcmp(body, u.body, n))
        fail("the payload of message %llu differs", (unsigned long long)sequence);
    u.read = sequence;
}

static uint64_t digits(const char *at, const char *end)
{
    uint64_t value = 0;
    const char *start = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (at == start)
        fail("a message without its sequence");
    return value;
}

/* ---- NATS Streaming ----------------------------------------------------- */

/* An Ack is {1: channel, 2: sequence}; its length varies with the sequence. */
static void put_ack(uint64_t sequence)
{
    char frame[STAN_SUBJECT_MAX + 64], body[32], *end = put_text(body, CHANNEL, NAME);
    end = put_number_field(end, 2, sequence);
    size_t n = (size_t)(end - body);
    memcpy(frame, u.ack_head, u.ack_head_len);
    char *to = frame + u.ack_head_len;
    if (n >= 10)
        *to++ = (char)('0' + n / 10);
    *to++ = (char)('0' + n % 10);
    memcpy(to, "\r\n", 2);
    memcpy(to + 2, body, n);
    memcpy(to + 2 + n, "\r\n", 2);
    conn_put(u.link->conn, frame, (size_t)(to - frame) + n + 4);
}

static void put_acks(void)
{
    while (u.ack_head_len && u.acked < u.read)
        put_ack(++u.acked);
}

static void on_stan_message(struct link *l, const struct message *m)
{
    const char *at = m->body;
    struct field f, data = {0};
    uint64_t sequence = 0;
    (void)l;
    while (next_field(&at, m->body + m->body_len, &f)) {
        if (f.number == 1)
            sequence = f.value;
        else if (f.number == 4)
            data = f;
        else if (f.number == 6 && f.value)
            fail("message %llu was redelivered", (unsigned long long)sequence);
    }
    take(sequence, data.bytes, data.len);
    put_acks();
}

static void stan_begin(void)
{
    stan_subscribe(u.link, INBOX, u.o->inflight, u.o->durable ? NAME : "", START_FIRST, u.ack_inbox);
    u.ack_head_len = (size_t)snprintf(u.ack_head, sizeof u.ack_head, "PUB %s ", u.ack_inbox);
    put_acks();
}

/* A subscription that is closed has had its acknowledgements: requests come after them in order. */
static void stan_end(void)
{
    const char *durable = u.o->durable ? NAME : "";
    stan_unsubscribe(u.link, u.o->durable ? u.link->sub_close : u.link->unsubscribe, u.ack_inbox, durable);
}

/* A durable that is opened again would get first what it had not acknowledged. */
static void stan_check(void)
{
    if (u.o->durable) {
        stan_begin();
        link_sync(u.link);
        stan_unsubscribe(u.link, u.link->unsubscribe, u.ack_inbox, NAME);
    }
    link_sync(u.link);
}

/* ---- JetStream ---------------------------------------------------------- */

/* $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending> */
static uint64_t sequence_of(const struct message *m)
{
    const char *at = m->reply, *end = m->reply + m->reply_len;
    for (int dots = 0; dots < 4; dots++) {
        at = memchr(at, '.', (size_t)(end - at));
        if (!at)
            fail("a message with the reply subject %.*s", (int)m->reply_len, m->reply);
        at++;
    }
    if (end - at < 2 || at[0] != '1' || at[1] != '.')
        fail("a message that was redelivered: %.*s", (int)m->reply_len, m->reply);
    return digits(at + 2, end);
}

static void put_answer(const struct message *m, const char *reply, const char *body)
{
    char frame[512];
    int n = snprintf(frame, sizeof frame, "PUB %.*s %s%s%zu\r\n%s\r\n", (int)m->reply_len, m->reply, reply,
                     *reply ? " " : "", strlen(body), body);
    conn_put(u.link->conn, frame, (size_t)n);
}

static void put_jetstream_ack(const struct message *m)
{
    static const char TAIL[] = " 4\r\n+ACK\r\n";
    char frame[512];
    if (m->reply_len > sizeof frame - 32)
        fail("a reply subject of %zu bytes", m->reply_len);
    memcpy(frame, "PUB ", 4);
    memcpy(frame + 4, m->reply, m->reply_len);
    memcpy(frame + 4 + m->reply_len, TAIL, sizeof TAIL - 1);
    conn_put(u.link->conn, frame, 4 + m->reply_len + sizeof TAIL - 1);
}

/* The last acknowledgement asks for an answer, as AckSync of the client libraries does. */
static void on_jetstream_message(struct link *l, const struct message *m)
{
    take(sequence_of(m), m->body, m->body_len);
    if (u.read < u.o->count) {
        put_jetstream_ack(m);
    } else {
        l->answered = false;
        put_answer(m, "_INBOX.q000", "+ACK");
    }
}

/* Flow control is answered at once; a heartbeat names the subject when the answer was lost. */
static void on_ordered_message(struct link *l, const struct message *m)
{
    static const char FLOW[] = "NATS/1.0 100 FlowControl Request", IDLE[] = "NATS/1.0 100 Idle Heartbeat";
    (void)l;
    if (!m->headers_len)
        take(sequence_of(m), m->body, m->body_len);
    else if (m->headers_len > sizeof FLOW && !memcmp(m->headers, FLOW, sizeof FLOW - 1) && m->reply_len)
        put_answer(m, "", "");
    else if (m->headers_len < sizeof IDLE || memcmp(m->headers, IDLE, sizeof IDLE - 1) ||
             memmem(m->headers, m->headers_len, "Nats-Consumer-Stalled", 21))
        fail("unexpected message %.*s", (int)m->headers_len, m->headers);
}

/* Asks for the next messages of a pull consumer. */
static void fetch(void)
{
    static const char SUBJECT[] = "$JS.API.CONSUMER.MSG.NEXT." NAME "." NAME;
    char body[64], frame[256];
    uint64_t left = u.o->count - u.asked, n = left < (uint64_t)u.o->batch ? left : (uint64_t)u.o->batch;
    if (!n)
        return;
    int len = snprintf(body, sizeof body, "{\"batch\":%llu,\"expires\":30000000000}", (unsigned long long)n);
    len = snprintf(frame, sizeof frame, "PUB %s %s %d\r\n%s\r\n", SUBJECT, INBOX, len, body);
    u.asked += n;
    conn_put(u.link->conn, frame, (size_t)len);
}

static void on_fetched_message(struct link *l, const struct message *m)
{
    if (m->headers_len)
        fail("unexpected message %.*s", (int)m->headers_len, m->headers);
    if (u.o->durable)
        on_jetstream_message(l, m);
    else
        take(sequence_of(m), m->body, m->body_len);
    if (u.read == u.asked)
        fetch();
}

static void jetstream_begin(void)
{
    if (u.o->batch) {
        jetstream_ask(u.link, "$JS.API.CONSUMER.DURABLE.CREATE." NAME "." NAME,
                      "{\"stream_name\":\"" NAME "\",\"config\":{\"durable_name\":\"" NAME "\","
                      "\"deliver_policy\":\"all\",\"ack_policy\":\"%s\",\"ack_wait\":30000000000,"
                      "\"max_ack_pending\":%d,\"replay_policy\":\"instant\"}}",
                      u.o->durable ? "explicit" : "none", u.o->durable ? u.o->inflight : 0);
        fetch();
    } else if (u.o->durable)
        jetstream_ask(u.link, "$JS.API.CONSUMER.DURABLE.CREATE." NAME "." NAME,
                      "{\"stream_name\":\"" NAME "\",\"config\":{\"durable_name\":\"" NAME "\","
                      "\"deliver_subject\":\"%s\",\"deliver_policy\":\"all\",\"ack_policy\":\"explicit\","
                      "\"ack_wait\":30000000000,\"max_ack_pending\":%d,\"replay_policy\":\"instant\"}}",
                      INBOX, u.o->inflight);
    else
        jetstream_ask(u.link, "$JS.API.CONSUMER.CREATE." NAME,
                      "{\"stream_name\":\"" NAME "\",\"config\":{\"deliver_subject\":\"%s\","
                      "\"deliver_policy\":\"all\",\"ack_policy\":\"none\",\"max_deliver\":1,"
                      "\"flow_control\":true,\"idle_heartbeat\":%d000000000,\"mem_storage\":true,"
                      "\"num_replicas\":1,\"ack_wait\":79200000000000,\"replay_policy\":\"instant\"}}",
                      INBOX, HEARTBEAT_S);
}

static void jetstream_end(void)
{
    while (u.o->durable && !u.link->answered)
        link_work(u.link, 100);
}

static void jetstream_check(void)
{
    if (!u.o->durable && !u.o->batch)
        return;
    jetstream_ask(u.link, "$JS.API.CONSUMER.INFO." NAME "." NAME, "%s", "");
    uint64_t pending = answer_number(u.link, "num_ack_pending") + answer_number(u.link, "num_pending");
    if (pending || answer_number(u.link, "num_redelivered"))
        fail("%llu messages are not acknowledged", (unsigned long long)pending);
    jetstream_ask(u.link, "$JS.API.CONSUMER.DELETE." NAME "." NAME, "%s", "");
}

/* ---- replay in plain NATS ----------------------------------------------- */

static void on_replayed(struct link *l, const struct message *m)
{
    static const char SEQUENCE[] = "\r\nNats-Sequence: ", END[] = "NATS/1.0 204 EOB\r\n";
    (void)l;
    const char *at = memmem(m->headers, m->headers_len, SEQUENCE, sizeof SEQUENCE - 1);
    if (u.ended)
        fail("a message after the end");
    if (at)
        take(digits(at + sizeof SEQUENCE - 1, m->body), m->body, m->body_len);
    else if (!m->body_len && m->headers_len >= sizeof END && !memcmp(m->headers, END, sizeof END - 1))
        u.ended = true;
    else
        fail("unexpected message %.*s%.*s", (int)m->headers_len, m->headers, (int)m->body_len, m->body);
}

static void replay_begin(void)
{
    static const char BODY[] = "{\"channel\":\"" NAME "\",\"start_sequence\":1}";
    char frame[128];
    int n = snprintf(frame, sizeof frame, "PUB _STAN.replay." NAME " %s %zu\r\n%s\r\n", INBOX,
                     sizeof BODY - 1, BODY);
    conn_put(u.link->conn, frame, (size_t)n);
}

/* ---- the mode ----------------------------------------------------------- */

static void nothing(void) {}

struct way {
    void (*on_data)(struct link *, const struct message *);
    void (*begin)(void), (*end)(void), (*check)(void);
};

static const struct way WAYS[] = {
    [SPEAK_STAN] = {on_stan_message, stan_begin, stan_end, stan_check},
    [SPEAK_JETSTREAM] = {on_ordered_message, jetstream_begin, jetstream_end, jetstream_check},
    [SPEAK_REPLAY] = {on_replayed, replay_begin, nothing, nothing},
};

void run_consume(const struct options *o)
{
    struct usage from, to;
    const struct way *way = &WAYS[o->dialect];
    if (o->dialect == SPEAK_NATS || o->payload > PAYLOAD_MAX || o->count > 1000000000 ||
        (o->batch && o->dialect != SPEAK_JETSTREAM))
        fail("consume: --speak stan, jetstream or replay, at most %d bytes, a --count; --batch with jetstream",
             PAYLOAD_MAX);
    for (size_t i = 0; i < o->payload; i++)
        u.body[i] = (char)('a' + i % 26);
    u.o = o;
    u.link = link_open(o, epoll_create1(EPOLL_CLOEXEC), 0);
    conn_room(u.link->conn, ACKS_MAX);
    u.link->on_data = o->batch                                         ? on_fetched_message
                      : o->dialect == SPEAK_JETSTREAM && o->durable ? on_jetstream_message
                                                                    : way->on_data;
    link_listen(u.link, INBOX);
    if (o->dialect == SPEAK_JETSTREAM) /* the first request after a start may open the stream: not measured here */
        jetstream_ask(u.link, "$JS.API.STREAM.MSG.GET." NAME, "%s", "{\"seq\":1}");
    from = usage_now(o->pid);
    way->begin();
    while (o->dialect == SPEAK_REPLAY ? !u.ended : u.read < o->count)
        link_work(u.link, 100);
    way->end();
    to = usage_now(o->pid);
    link_sync(u.link);
    way->check();
    if (u.read != o->count)
        fail("%llu messages of %llu came", (unsigned long long)u.read, (unsigned long long)o->count);
    link_leave(u.link);
    printf("{\"delivered\": %llu, ", (unsigned long long)u.read);
    print_usage(&from, &to);
    printf("}\n");
}
