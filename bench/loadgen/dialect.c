/* dialect.c - what clients of stored streams say: NATS Streaming, JetStream.
 *
 * A link is one client on one connection.  It asks (create a stream, subscribe)
 * outside of what is measured, and hands on what arrives for its data
 * subscription.  An answer with an error in it ends the program.
 */
#define _GNU_SOURCE
#include "dialect.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { STAN_PROTOCOL = 1, PING_INTERVAL_S = 5, PING_MAX_OUT = 88, ACK_WAIT_S = 30 };

/* ---- protobuf ----------------------------------------------------------- */

char *put_varint(char *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *to++ = (char)(value | 0x80);
    *to++ = (char)value;
    return to;
}

char *put_bytes(char *to, int field, const void *bytes, size_t n)
{
    to = put_varint(to, (uint64_t)field << 3 | 2);
    to = put_varint(to, n);
    memcpy(to, bytes, n);
    return to + n;
}

char *put_text(char *to, int field, const char *text)
{
    return *text ? put_bytes(to, field, text, strlen(text)) : to;
}

char *put_number_field(char *to, int field, uint64_t value)
{
    return put_varint(put_varint(to, (uint64_t)field << 3), value);
}

static uint64_t take_varint(const char **at, const char *end)
{
    uint64_t value = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    fail("a protobuf message breaks off");
}

/* Numbers and bytes are all that NATS Streaming's messages have; false at the end. */
bool next_field(const char **at, const char *end, struct field *f)
{
    if (*at == end)
        return false;
    uint64_t tag = take_varint(at, end);
    *f = (struct field){.number = tag >> 3};
    f->value = take_varint(at, end);
    if ((tag & 7) == 2) {
        if (f->value > (uint64_t)(end - *at))
            fail("a protobuf message breaks off");
        f->bytes = *at;
        f->len = (size_t)f->value;
        *at += f->len;
    } else if (tag & 7)
        fail("a protobuf field of type %d", (int)(tag & 7));
    return true;
}

/* Copies a text field of the answer; fails when it is missing. */
static void answer_text(const struct link *l, uint64_t number, char *to, size_t size, const char *what)
{
    const char *at = l->answer;
    struct field f;
    while (next_field(&at, l->answer + l->answer_len, &f))
        if (f.number == number && f.bytes && f.len && f.len < size) {
            memcpy(to, f.bytes, f.len);
            to[f.len] = 0;
            return;
        }
    fail("no %s in the answer of the server", what);
}

/* `number`: the field of an error in an answer of NATS Streaming. */
static void check_stan_answer(const struct link *l, uint64_t number)
{
    const char *at = l->answer;
    struct field f;
    while (next_field(&at, l->answer + l->answer_len, &f))
        if (f.number == number && f.bytes)
            fail("the server answered %.*s", (int)f.len, f.bytes);
}

/* ---- links -------------------------------------------------------------- */

static void put_head(struct link *l, const char *subject, const char *reply, size_t n)
{
    char head[2 * STAN_SUBJECT_MAX + 64];
    int len = snprintf(head, sizeof head, "PUB %s %s%s%zu\r\n", subject, reply, *reply ? " " : "", n);
    conn_put(l->conn, head, (size_t)len);
}

static void on_message(struct conn *c, const struct message *m)
{
    struct link *l = c->owner;
    if (m->sid == SID_DATA) {
        l->on_data(l, m);
    } else if (m->sid == SID_HEARTBEATS) {
        char reply[STAN_SUBJECT_MAX];
        snprintf(reply, sizeof reply, "%.*s", (int)m->reply_len, m->reply);
        put_head(l, reply, "", 0);
        conn_put(c, "\r\n", 2);
    } else if (m->sid == SID_ANSWERS) {
        if (m->headers_len)
            fail("the server answered %.*s", (int)m->headers_len, m->headers);
        if (m->body_len >= sizeof l->answer)
            fail("an answer of %zu bytes", m->body_len);
        memcpy(l->answer, m->body, m->body_len);
        l->answer[m->body_len] = 0;
        l->answer_len = m->body_len;
        l->answered = true;
    } else {
        fail("a message for subscription %d", m->sid);
    }
}

static void unexpected(struct link *l, const struct message *m)
{
    (void)l;
    fail("unexpected message on %.*s", (int)m->subject_len, m->subject);
}

/* Reads and writes what can be, after waiting for it. */
void link_work(struct link *l, int timeout_ms)
{
    conn_flush(l->conn);
    conns_poll(l->epfd, timeout_ms, 0);
    while (l->conn->readable) {
        conn_read(l->conn);
        conn_flush(l->conn);
    }
    deadline_check(now_ns());
}

/* Sends a request and waits until its answer is in `answer`. */
void link_ask(struct link *l, const char *subject, const char *body, size_t n)
{
    char reply[32];
    snprintf(reply, sizeof reply, "_INBOX.q%03d", l->number);
    put_head(l, subject, reply, n);
    conn_put(l->conn, body, n);
    conn_put(l->conn, "\r\n", 2);
    for (l->answered = false; !l->answered;)
        link_work(l, 100);
}

/* Returns when the server has worked through everything sent so far. */
void link_sync(struct link *l)
{
    uint64_t before = l->conn->pongs;
    conn_put(l->conn, "PING\r\n", 6);
    while (l->conn->pongs == before)
        link_work(l, 100);
}

/* Data comes on this subject, and on no other any more. */
void link_listen(struct link *l, const char *subject)
{
    char line[STAN_SUBJECT_MAX + 32];
    int n = snprintf(line, sizeof line, "UNSUB %d\r\nSUB %s %d\r\n", SID_DATA, subject, SID_DATA);
    conn_put(l->conn, line, (size_t)n);
    link_sync(l);
}

static void stan_connect(struct link *l)
{
    char body[256], inbox[32], *end = body;
    snprintf(l->client_id, sizeof l->client_id, NAME "-%03d", l->number);
    snprintf(l->conn_id, sizeof l->conn_id, NAME "-connection-id-%03d", l->number);
    snprintf(inbox, sizeof inbox, "_INBOX.h%03d", l->number);
    end = put_text(end, 1, l->client_id);
    end = put_text(end, 2, inbox);
    end = put_number_field(end, 3, STAN_PROTOCOL);
    end = put_text(end, 4, l->conn_id);
    end = put_number_field(end, 5, PING_INTERVAL_S);
    end = put_number_field(end, 6, PING_MAX_OUT);
    link_ask(l, "_STAN.discover." NAME, body, (size_t)(end - body));
    check_stan_answer(l, 5);
    answer_text(l, 1, l->publish, sizeof l->publish, "prefix to publish to");
    answer_text(l, 2, l->subscribe, sizeof l->subscribe, "subject to subscribe");
    answer_text(l, 3, l->unsubscribe, sizeof l->unsubscribe, "subject to unsubscribe");
    answer_text(l, 4, l->close, sizeof l->close, "subject to close");
    answer_text(l, 6, l->sub_close, sizeof l->sub_close, "subject to close a subscription");
}

struct link *link_open(const struct options *o, int epfd, int number)
{
    char lines[128];
    struct link *l = must_alloc(sizeof *l);
    struct conn *c = l->conn = conn_open(o->port);
    l->number = c->number = number;
    l->epfd = epfd;
    l->dialect = o->dialect;
    l->on_data = unexpected;
    c->owner = l;
    c->on_message = on_message;
    conn_async(c, epfd);
    int n = snprintf(lines, sizeof lines, "SUB _INBOX.q%03d %d\r\nSUB _INBOX.h%03d %d\r\n", number,
                     SID_ANSWERS, number, SID_HEARTBEATS);
    conn_put(c, lines, (size_t)n);
    if (o->dialect == SPEAK_STAN)
        stan_connect(l);
    return l;
}

/* Says goodbye where the dialect has a word for it. */
void link_leave(struct link *l)
{
    char body[64];
    if (l->dialect != SPEAK_STAN)
        return;
    char *end = put_text(body, 1, l->client_id);
    link_ask(l, l->close, body, (size_t)(end - body));
    check_stan_answer(l, 1);
}

/* ---- NATS Streaming ----------------------------------------------------- */

/* Gives the subject for acknowledgements. `durable` may be "". */
void stan_subscribe(struct link *l, const char *inbox, int in_flight, const char *durable, int start,
                    char *ack_inbox)
{
    char body[256], *end = body;
    end = put_text(end, 1, l->client_id);
    end = put_text(end, 2, NAME);
    end = put_text(end, 4, inbox);
    end = put_number_field(end, 5, (uint64_t)in_flight);
    end = put_number_field(end, 6, ACK_WAIT_S);
    end = put_text(end, 7, durable);
    end = put_number_field(end, 10, (uint64_t)start);
    link_ask(l, l->subscribe, body, (size_t)(end - body));
    check_stan_answer(l, 3);
    answer_text(l, 2, ack_inbox, STAN_SUBJECT_MAX, "inbox for acknowledgements");
}

/* `subject`: unsubscribe ends a durable, sub_close keeps it. */
void stan_unsubscribe(struct link *l, const char *subject, const char *ack_inbox, const char *durable)
{
    char body[256], *end = body;
    end = put_text(end, 1, l->client_id);
    end = put_text(end, 2, NAME);
    end = put_text(end, 3, ack_inbox);
    end = put_text(end, 4, durable);
    link_ask(l, subject, body, (size_t)(end - body));
    check_stan_answer(l, 3);
}

/* ---- JetStream ---------------------------------------------------------- */

/* Servers that have just begun may not know each other well enough yet to place a stream. */
#define NO_PEERS "\"err_code\":10005"
#define PEERS_LIMIT_NS 30000000000
#define ASK_AGAIN_MS 100

/* A request of the JetStream API with a body of JSON. It is made again while the servers have no peers for it. */
void jetstream_ask(struct link *l, const char *subject, const char *format, ...)
{
    char body[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(body, sizeof body, format, args);
    va_end(args);
    int64_t give_up = now_ns() + PEERS_LIMIT_NS;
    link_ask(l, subject, body, (size_t)n);
    while (strstr(l->answer, NO_PEERS) && now_ns() < give_up) {
        for (int64_t again = now_ns() + ASK_AGAIN_MS * 1000000; now_ns() < again;)
            link_work(l, ASK_AGAIN_MS);
        link_ask(l, subject, body, (size_t)n);
    }
    if (strstr(l->answer, "\"error\""))
        fail("the server answered %s", l->answer);
}

/* The first number of that name in the last answer. */
uint64_t answer_number(const struct link *l, const char *key)
{
    char quoted[64], *end;
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(l->answer, quoted);
    if (!at)
        fail("no %s in the answer of the server: %s", key, l->answer);
    at += strlen(quoted);
    uint64_t value = strtoull(at, &end, 10);
    if (end == at)
        fail("%s is no number in the answer of the server: %s", key, l->answer);
    return value;
}
