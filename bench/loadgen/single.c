/* single.c - one operation on a stream after the other, each waiting for the answer of the one before.
 *
 *   --operation pull          ask a pull consumer, which has messages, for one
 *   --operation ack           acknowledge a message and wait for the confirmation
 *   --operation get-subject   direct get of the newest message of a subject
 *   --operation get-sequence  direct get of a sequence
 *
 * The stream is made and filled before the clock runs: `count` messages on
 * `subjects` subjects in turn.  Every operation has a new reply subject below one
 * wildcard inbox, as the client libraries have.  Gets go through the stream in
 * steps of a prime, so that the neighbour of the last answer is never asked for.
 * Pulls and acknowledgements take turns in rounds, of which only the chosen ones
 * are measured: no more than a round of messages is ever unacknowledged.  Every
 * answer must name its request or its message, and be the right one; at the end the
 * consumer has nothing unacknowledged and exactly the rest pending.
 */
#define _GNU_SOURCE
#include "dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { PAYLOAD_MAX = 3072, FRAME_MAX = 1024, ACK_SUBJECT_MAX = 256 };
enum { ROUND = 250, FILL_WINDOW = 500, STEP = 7919 };

static const char INBOX[] = "_INBOX.s000.";

static struct {
    const struct options *o;
    struct link *link;
    struct latencies latencies;
    struct usage used;
    uint64_t asked;          /* operations so far, whichever: the token of their reply subjects */
    uint64_t pulled, looked; /* messages pulled, places looked up */
    uint64_t measured;
    bool answered;
    void (*check)(const struct message *);
    uint64_t expected; /* the sequence of the message that is asked for */
    char body[PAYLOAD_MAX];
    char acks[ROUND][ACK_SUBJECT_MAX]; /* where messages of this round are acknowledged */
    int kept, acked;                 /* how many of them there are, and are done */
} g;

/* ---- answers ------------------------------------------------------------ */

static void on_answer(struct link *l, const struct message *m)
{
    (void)l;
    if (g.answered)
        fail("an answer out of order on %.*s", (int)m->subject_len, m->subject);
    g.check(m);
    g.answered = true;
}

/* Deliveries come with the subject of their message, all other answers with the reply subject of the request. */
static void check_reply_subject(const struct message *m)
{
    char token[TOKEN];
    put_token(token, g.asked);
    if (m->subject_len < TOKEN || memcmp(m->subject + m->subject_len - TOKEN, token, TOKEN))
        fail("an answer out of order on %.*s", (int)m->subject_len, m->subject);
}

static void check_payload(const struct message *m)
{
    if (m->body_len != g.o->payload || memcmp(m->body, g.body, m->body_len))
        fail("the payload of message %llu differs", (unsigned long long)g.expected);
}

/* A delivery: $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>... */
static void check_delivery(const struct message *m)
{
    char start[64];
    if (m->headers_len)
        fail("the server answered %.*s", (int)m->headers_len, m->headers);
    int n = snprintf(start, sizeof start, "$JS.ACK." NAME "." NAME ".1.%llu.",
                     (unsigned long long)g.expected);
    if (m->reply_len >= ACK_SUBJECT_MAX || m->reply_len < (size_t)n || memcmp(m->reply, start, (size_t)n))
        fail("message %llu was expected, %.*s came", (unsigned long long)g.expected, (int)m->reply_len,
             m->reply);
    check_payload(m);
    memcpy(g.acks[g.kept], m->reply, m->reply_len);
    g.acks[g.kept++][m->reply_len] = 0;
}

static void check_confirmation(const struct message *m)
{
    check_reply_subject(m);
    if (m->headers_len || m->body_len)
        fail("a confirmation of %zu bytes", m->headers_len + m->body_len);
}

static void check_message(const struct message *m)
{
    static const char NAMED[] = "\r\nNats-Sequence: ";
    const char *at = memmem(m->headers, m->headers_len, NAMED, sizeof NAMED - 1);
    char *end;
    check_reply_subject(m);
    if (!at)
        fail("the server answered %.*s", (int)m->headers_len, m->headers);
    at += sizeof NAMED - 1;
    if (strtoull(at, &end, 10) != g.expected || *end != '\r')
        fail("message %llu was expected, message %.*s came", (unsigned long long)g.expected,
             (int)(end - at), at);
    check_payload(m);
}

/* ---- operations --------------------------------------------------------- */

/* Sends one request and returns when its answer was checked. */
static void ask(const char *subject, const char *body, size_t n, void (*check)(const struct message *))
{
    char frame[FRAME_MAX], token[TOKEN];
    put_token(token, ++g.asked);
    int len = snprintf(frame, sizeof frame, "PUB %s %s%.*s %zu\r\n%.*s\r\n", subject, INBOX, TOKEN, token,
                       n, (int)n, body);
    g.check = check;
    g.answered = false;
    int64_t start = now_ns();
    conn_put(g.link->conn, frame, (size_t)len);
    while (!g.answered)
        link_work(g.link, 100);
    latencies_add(&g.latencies, now_ns() - start);
}

static void pull(void)
{
    static const char BODY[] = "{\"batch\":1,\"expires\":5000000000}";
    g.expected = ++g.pulled;
    ask("$JS.API.CONSUMER.MSG.NEXT." NAME "." NAME, BODY, sizeof BODY - 1, check_delivery);
}

static void acknowledge(void)
{
    ask(g.acks[g.acked++], "+ACK", 4, check_confirmation);
}

static void get_subject(void)
{
    char subject[128];
    uint64_t place = g.looked++ * STEP % g.o->subjects;
    /* Subjects go round from sequence 1 on, and every one has the same number of messages. */
    g.expected = g.o->count - g.o->subjects + 1 + place;
    snprintf(subject, sizeof subject, "$JS.API.DIRECT.GET." NAME "." NAME ".%010llu",
             (unsigned long long)place);
    ask(subject, "", 0, check_message);
}

static void get_sequence(void)
{
    char body[64];
    g.expected = g.looked++ * STEP % g.o->count + 1;
    int n = snprintf(body, sizeof body, "{\"seq\":%llu}", (unsigned long long)g.expected);
    ask("$JS.API.DIRECT.GET." NAME, body, (size_t)n, check_message);
}

/* ---- the stream --------------------------------------------------------- */

/* Published in windows: the last message of each asks for its PubAck. */
static void fill(void)
{
    char frame[PAYLOAD_MAX + 256], subject[64];
    for (uint64_t done = 0; done < g.o->count; done++) {
        snprintf(subject, sizeof subject, NAME ".%010llu", (unsigned long long)(done % g.o->subjects));
        if ((done + 1) % FILL_WINDOW && done + 1 < g.o->count) {
            int n = snprintf(frame, sizeof frame, "PUB %s %zu\r\n%.*s\r\n", subject, g.o->payload,
                             (int)g.o->payload, g.body);
            conn_put(g.link->conn, frame, (size_t)n);
        } else {
            link_ask(g.link, subject, g.body, g.o->payload);
            if (answer_number(g.link, "seq") != done + 1)
                fail("message %llu was stored as %s", (unsigned long long)done + 1, g.link->answer);
        }
    }
}

static void build(void)
{
    g.link = link_open(g.o, epoll_create1(EPOLL_CLOEXEC), 0);
    conn_room(g.link->conn, FILL_WINDOW * (PAYLOAD_MAX + 256));
    jetstream_ask(g.link, "$JS.API.STREAM.CREATE." NAME,
                  "{\"name\":\"" NAME "\",\"subjects\":[\"" NAME ".*\"],\"retention\":\"limits\","
                  "\"storage\":\"file\",\"discard\":\"old\",\"num_replicas\":1,\"max_consumers\":-1,"
                  "\"max_msgs\":-1,\"max_bytes\":-1,\"max_age\":0,\"allow_direct\":true}");
    fill();
    if (g.o->operation == PULL || g.o->operation == ACK)
        jetstream_ask(g.link, "$JS.API.CONSUMER.DURABLE.CREATE." NAME "." NAME,
                      "{\"stream_name\":\"" NAME "\",\"config\":{\"durable_name\":\"" NAME "\","
                      "\"deliver_policy\":\"all\",\"ack_policy\":\"explicit\",\"ack_wait\":600000000000,"
                      "\"max_ack_pending\":1000,\"replay_policy\":\"instant\"}}");
    char inbox[32];
    snprintf(inbox, sizeof inbox, "%s*", INBOX);
    g.link->on_data = on_answer;
    link_listen(g.link, inbox);
}

/* ---- the mode ----------------------------------------------------------- */

/* Some operations that are measured; their latencies are kept. */
static void measure(void (*operation)(void), int count)
{
    struct usage from = usage_now(g.o->pid), to;
    for (int i = 0; i < count; i++)
        operation();
    to = usage_now(g.o->pid);
    usage_add(&g.used, &from, &to);
    g.measured += (uint64_t)count;
}

/* Some that are not. */
static void skip(void (*operation)(void), int count)
{
    static struct latencies kept;
    kept = g.latencies;
    for (int i = 0; i < count; i++)
        operation();
    g.latencies = kept;
}

/* One round; returns false when there are no messages left. */
static bool play_round(void)
{
    if (g.o->operation == GET_SUBJECT || g.o->operation == GET_SEQUENCE) {
        measure(g.o->operation == GET_SUBJECT ? get_subject : get_sequence, ROUND);
        return true;
    }
    uint64_t left = g.o->count - g.pulled;
    int count = left < ROUND ? (int)left : ROUND;
    g.kept = g.acked = 0;
    if (count)
        (g.o->operation == PULL ? measure : skip)(pull, count);
    if (count)
        (g.o->operation == ACK ? measure : skip)(acknowledge, count);
    return count > 0;
}

static void run_phase(double seconds)
{
    latencies_clear(&g.latencies);
    g.used = (struct usage){0};
    g.measured = 0;
    while (g.used.wall_ns < (int64_t)(seconds * 1e9) && play_round())
        deadline_check(now_ns());
}

static void check_end(void)
{
    if (g.o->operation != PULL && g.o->operation != ACK)
        return;
    jetstream_ask(g.link, "$JS.API.CONSUMER.INFO." NAME "." NAME, "%s", "");
    uint64_t pending = answer_number(g.link, "num_pending");
    if (answer_number(g.link, "num_ack_pending") || pending != g.o->count - g.pulled)
        fail("%llu messages of %llu were pulled and acknowledged, the consumer says %s",
             (unsigned long long)g.pulled, (unsigned long long)g.o->count, g.link->answer);
}

void run_single(const struct options *o)
{
    if (o->dialect != SPEAK_JETSTREAM || !o->operation || o->payload > PAYLOAD_MAX || o->count > 100000000 ||
        !o->subjects || o->count % o->subjects)
        fail("single: --speak jetstream, --operation, at most %d bytes, --subjects that divide --count",
             PAYLOAD_MAX);
    for (size_t i = 0; i < o->payload; i++)
        g.body[i] = (char)('a' + i % 26);
    g.o = o;
    build();
    if (o->warmup > 0)
        run_phase(o->warmup);
    run_phase(o->seconds);
    if (!g.measured)
        fail("no message was left to measure");
    check_end();
    printf("{\"operations\": %llu, ", (unsigned long long)g.measured);
    latencies_print(&g.latencies);
    print_usage(&(struct usage){0}, &g.used);
    printf("}\n");
}
