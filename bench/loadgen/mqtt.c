/* mqtt.c - messages over MQTT 3.1.1, counted exactly, and idle clients.
 *
 *   mqtt       F flows: one publisher and `fan` subscribers of its topic, all with the same --qos.
 *              QoS 0: whole blocks of precomputed packets, as traffic.c does. QoS 1 and 2: at most
 *              `inflight` messages of a publisher are not acknowledged; subscribers acknowledge each.
 *   mqtt-idle  `count` clients that have connected and say nothing; the memory of the server
 *
 * A phase publishes for a time (or a count). Then every message must be acknowledged, every
 * subscriber must have received exactly what was sent, in order, and nothing more may come
 * before the answer to its PINGREQ.
 *
 * A publisher pauses while one of its subscribers is `window` bytes behind.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    PAYLOAD_MOST = 2000, /* a packet has to fit into what a connection carries between reads */
    IDENTIFIERS = 65535,
    PUBLISHER = -1, /* a connection's number; subscribers count from 0 */
    CONNECT = 0x10,
    PUBLISH = 0x30,
    PUBACK = 0x40,
    PUBREC = 0x50,
    PUBREL = 0x62,
    PUBCOMP = 0x70,
    SUBSCRIBE = 0x82,
    SUBACK = 0x90,
    PINGRESP = 0xd0
};

static const char PINGREQ[2] = {(char)0xc0, 0};

struct flow {
    struct conn *publisher;
    struct conn **subscribers;
    int subscriber_count, qos;
    char *block; /* whole packets, written again and again; with QoS 1 and 2 one, with a number of its own */
    size_t block_packets, packet_len, identifier_at, token_at, window_packets;
    uint64_t begun, recorded, acknowledged, limit; /* recorded: PUBRECs of QoS 2 */
    bool asked;
};

struct load {
    const struct options *o;
    int epfd, flow_count, conn_count;
    struct flow *flows;
    struct conn **conns;
};

/* ---- packets -------------------------------------------------------------- */

/* Writes the first byte and the remaining length; returns how many bytes that are. */
static size_t put_head(char *to, int first, size_t rest)
{
    size_t n = 0;
    to[n++] = (char)first;
    do {
        to[n++] = (char)((rest & 127) | (rest > 127 ? 128 : 0));
        rest >>= 7;
    } while (rest);
    return n;
}

static size_t put_text(char *to, const char *text)
{
    size_t n = strlen(text);
    to[0] = (char)(n >> 8);
    to[1] = (char)n;
    memcpy(to + 2, text, n);
    return n + 2;
}

/* The remaining length; returns where the rest of the packet begins, 0 while the head is not whole. */
static size_t read_head(const char *p, const char *end, size_t *rest)
{
    *rest = 0;
    for (size_t n = 1; n < 5; n++) {
        if (p + n >= end)
            return 0;
        *rest |= (size_t)(p[n] & 127) << (7 * (n - 1));
        if (!(p[n] & 128))
            return n + 1;
    }
    fail("a remaining length of more than four bytes");
}

static unsigned identifier_of(const char *at)
{
    return (unsigned)((unsigned char)at[0] << 8 | (unsigned char)at[1]);
}

static unsigned identifier(uint64_t number) { return (unsigned)(number % IDENTIFIERS) + 1; }

static void put_acknowledgement(struct conn *c, int first, unsigned id)
{
    char packet[4] = {(char)first, 2, (char)(id >> 8), (char)id};
    conn_put(c, packet, sizeof packet);
}

/* Blocking; only used before the load. */
static void expect_packet(struct conn *c, const char *wanted, size_t n, const char *what)
{
    char got[16];
    for (size_t have = 0; have < n;) {
        ssize_t more = recv(c->fd, got + have, n - have, 0);
        if (more <= 0)
            fail("%s: %s", what, more ? strerror(errno) : "the server closed the connection");
        have += (size_t)more;
    }
    if (memcmp(got, wanted, n))
        fail("%s: the server answered %02x %02x %02x %02x", what, (unsigned char)got[0], (unsigned char)got[1],
             (unsigned char)got[2], (unsigned char)got[3]);
}

/* CONNECT of a clean session that is never too silent. */
static size_t put_connect(char *to, int number)
{
    char id[32], body[64];
    size_t n = 0;
    snprintf(id, sizeof id, "bench-%d", number);
    n += put_text(body, "MQTT");
    body[n++] = 4;    /* the level */
    body[n++] = 2;    /* clean */
    body[n++] = 0;    /* keep alive */
    body[n++] = 0;
    n += put_text(body + n, id);
    size_t head = put_head(to, CONNECT, n);
    memcpy(to + head, body, n);
    return head + n;
}

static const char ACCEPTED[4] = {0x20, 2, 0, 0};

static struct conn *mqtt_open(int port, int number)
{
    char packet[128];
    struct conn *c = conn_dial(port);
    conn_send_all(c, packet, put_connect(packet, number));
    expect_packet(c, ACCEPTED, sizeof ACCEPTED, "CONNECT");
    return c;
}

static void subscribe(struct conn *c, const char *topic, int qos)
{
    char packet[128], body[64], granted[5] = {(char)SUBACK, 3, 0, 1, (char)qos};
    size_t n = 2;
    body[0] = 0; /* the identifier is 1 */
    body[1] = 1;
    n += put_text(body + n, topic);
    body[n++] = (char)qos;
    size_t head = put_head(packet, SUBSCRIBE, n);
    memcpy(packet + head, body, n);
    conn_send_all(c, packet, head + n);
    expect_packet(c, granted, sizeof granted, "SUBSCRIBE");
}

/* ---- receiving -------------------------------------------------------------- */

/* A message of QoS 1 or 2: the next number of its flow, or it is a mistake. */
static void take_message(struct conn *c, const struct flow *f, const char *packet, size_t n)
{
    char wanted[TOKEN];
    if (n != f->packet_len || memcmp(packet + 1, f->block + 1, f->identifier_at - 1))
        fail("an unexpected message of %zu bytes begins with %02x", n, (unsigned char)packet[0]);
    put_token(wanted, c->received);
    if (memcmp(packet + f->token_at, wanted, TOKEN))
        fail("message %.*s came where %.*s was next", TOKEN, packet + f->token_at, TOKEN, wanted);
    c->received++;
    put_acknowledgement(c, f->qos == 2 ? PUBREC : PUBACK, identifier_of(packet + f->identifier_at));
}

static void take_acknowledgement(struct conn *c, struct flow *f, int first, unsigned id)
{
    uint64_t *count = first == PUBREC ? &f->recorded : &f->acknowledged;
    if (id != identifier(*count))
        fail("%02x for message %u where %u was next", first, id, identifier(*count));
    ++*count;
    if (first == PUBREC)
        put_acknowledgement(c, PUBREL, id);
}

static void take_packet(struct conn *c, const char *packet, size_t head, size_t rest)
{
    struct flow *f = c->owner;
    int first = (unsigned char)*packet, last = f->qos == 2 ? PUBCOMP : PUBACK;
    bool publishes = c->number == PUBLISHER;
    if (first == PINGRESP && rest == 0)
        c->pongs++;
    else if (!publishes && first == (PUBLISH | f->qos << 1))
        take_message(c, f, packet, head + rest);
    else if (!publishes && first == PUBREL && rest == 2 && f->qos == 2)
        put_acknowledgement(c, PUBCOMP, identifier_of(packet + head));
    else if (publishes && rest == 2 && f->qos && (first == last || (first == PUBREC && f->qos == 2)))
        take_acknowledgement(c, f, first, identifier_of(packet + head));
    else
        fail("an unexpected packet of %zu bytes begins with %02x", head + rest, (unsigned)first);
}

/* Counts messages of QoS 0, which are all the same; returns what follows the last whole one. */
static const char *take_equal(struct conn *c, const struct flow *f, const char *p, const char *end)
{
    const char *first = p;
    while ((size_t)(end - p) >= f->packet_len && !memcmp(p, f->block, f->packet_len))
        p += f->packet_len;
    if ((size_t)(end - p) >= f->packet_len && *p == PUBLISH)
        fail("a message differs from what was published: it begins with %02x %02x", (unsigned char)p[0],
             (unsigned char)p[1]);
    if (p == first)
        return NULL;
    c->received += (uint64_t)(p - first) / f->packet_len;
    return p;
}

static const char *take_packets(struct conn *c, const char *p, const char *end)
{
    const struct flow *f = c->owner;
    while (p < end) {
        if (!f->qos && c->number != PUBLISHER && *p == PUBLISH) {
            const char *next = take_equal(c, f, p, end);
            if (!next)
                return p;
            p = next;
            continue;
        }
        size_t rest, head = read_head(p, end, &rest);
        if (!head || (size_t)(end - p) < head + rest)
            return p;
        take_packet(c, p, head, rest);
        p += head + rest;
    }
    return p;
}

/* ---- building --------------------------------------------------------------- */

static struct conn *add_conn(struct load *t, struct flow *f, int number)
{
    struct conn *c = mqtt_open(t->o->port, t->conn_count);
    c->take = take_packets;
    c->owner = f;
    c->number = number;
    conn_room(c, OUT_MAX + (size_t)t->o->inflight * (f->packet_len + 8));
    t->conns = realloc(t->conns, sizeof *t->conns * (size_t)(t->conn_count + 1));
    if (!t->conns)
        fail("out of memory");
    return t->conns[t->conn_count++] = c;
}

static void build_packet(struct flow *f, const char *topic, size_t payload)
{
    size_t topic_len = strlen(topic) + 2, rest = topic_len + (f->qos ? 2 : 0) + payload;
    char *to = f->block = must_alloc(WRITE_SIZE + rest + 8);
    size_t n = put_head(to, PUBLISH | f->qos << 1, rest);
    n += put_text(to + n, topic);
    f->identifier_at = n;
    f->token_at = n += f->qos ? 2 : 0;
    for (size_t i = 0; i < payload; i++)
        to[n + i] = (char)('a' + i % 26);
    f->packet_len = n + payload;
    f->block_packets = f->qos ? 1 : WRITE_SIZE / f->packet_len;
    for (size_t i = 1; i < f->block_packets; i++)
        memcpy(to + i * f->packet_len, to, f->packet_len);
}

static void build_flow(struct load *t, struct flow *f, int number)
{
    char topic[32];
    snprintf(topic, sizeof topic, "bench/f%02d", number);
    f->qos = t->o->qos;
    build_packet(f, topic, t->o->payload);
    f->window_packets = t->o->window / f->packet_len + 1;
    f->publisher = add_conn(t, f, PUBLISHER);
    f->subscriber_count = t->o->fan;
    f->subscribers = must_alloc(sizeof *f->subscribers * (size_t)(t->o->fan + 1));
    for (int i = 0; i < t->o->fan; i++) {
        f->subscribers[i] = add_conn(t, f, i);
        subscribe(f->subscribers[i], topic, f->qos);
    }
}

/* ---- one phase -------------------------------------------------------------- */

static uint64_t least_received(const struct flow *f)
{
    uint64_t least = f->begun;
    for (int i = 0; i < f->subscriber_count; i++)
        if (f->subscribers[i]->received < least)
            least = f->subscribers[i]->received;
    return least;
}

static bool is_behind(const struct flow *f) { return f->begun > least_received(f) + f->window_packets; }

/* QoS 0: writes one block; returns true when there is more to do at once. */
static bool pump_blocks(struct flow *f, bool stopping)
{
    struct conn *c = f->publisher;
    if (!c->bulk_len) {
        if (stopping || f->begun >= f->limit) {
            if (!f->asked)
                conn_put(c, PINGREQ, sizeof PINGREQ);
            f->asked = true;
        }
        conn_flush(c);
        if (f->asked || c->out_len || is_behind(f))
            return false;
        uint64_t left = f->limit - f->begun;
        uint64_t packets = left < f->block_packets ? left : f->block_packets;
        c->bulk = f->block;
        c->bulk_len = (size_t)packets * f->packet_len;
        f->begun += packets;
    }
    if (c->writable)
        conn_write_bulk(c);
    return c->writable;
}

/* QoS 1 and 2: as many as may be without their acknowledgement. */
static bool pump_window(struct flow *f, bool stopping, uint64_t inflight)
{
    struct conn *c = f->publisher;
    f->asked |= stopping || f->begun >= f->limit;
    while (!f->asked && f->begun - f->acknowledged < inflight && !is_behind(f)) {
        unsigned id = identifier(f->begun);
        f->block[f->identifier_at] = (char)(id >> 8);
        f->block[f->identifier_at + 1] = (char)id;
        put_token(f->block + f->token_at, f->begun++);
        conn_put(c, f->block, f->packet_len);
        f->asked |= f->begun >= f->limit;
    }
    conn_flush(c);
    return false;
}

static bool is_complete(const struct load *t)
{
    for (int i = 0; i < t->flow_count; i++) {
        const struct flow *f = &t->flows[i];
        if (!f->asked || (f->qos ? f->acknowledged < f->begun : !f->publisher->pongs) ||
            least_received(f) < f->begun)
            return false;
    }
    return true;
}

/* Reads everything that is ready; returns true when more is. */
static bool read_ready(struct load *t)
{
    bool more = false;
    for (int i = 0; i < t->conn_count; i++) {
        struct conn *c = t->conns[i];
        if (c->readable)
            conn_read(c);
        more |= c->readable;
        conn_flush(c);
    }
    return more;
}

/* After the clock stopped: nothing may be left on its way. */
static void settle(struct load *t)
{
    for (int i = 0; i < t->conn_count; i++) {
        t->conns[i]->pongs = 0;
        conn_put(t->conns[i], PINGREQ, sizeof PINGREQ);
        conn_flush(t->conns[i]);
    }
    for (int i = 0; i < t->conn_count; i++)
        while (!t->conns[i]->pongs) {
            if (!read_ready(t))
                conns_poll(t->epfd, 100, 0);
            deadline_check(now_ns());
        }
    for (int i = 0; i < t->flow_count; i++)
        for (int s = 0; s < t->flows[i].subscriber_count; s++)
            if (t->flows[i].subscribers[s]->received != t->flows[i].begun)
                fail("subscriber %d received %llu messages, expected %llu", s,
                     (unsigned long long)t->flows[i].subscribers[s]->received,
                     (unsigned long long)t->flows[i].begun);
}

static void run_phase(struct load *t, double seconds, struct usage *from, struct usage *to)
{
    for (int i = 0; i < t->conn_count; i++)
        t->conns[i]->received = t->conns[i]->pongs = 0;
    for (int i = 0; i < t->flow_count; i++) {
        struct flow *f = &t->flows[i];
        f->begun = f->recorded = f->acknowledged = 0;
        f->limit = t->o->count;
        f->asked = false;
    }
    *from = usage_now(t->o->pid);
    int64_t stop = from->wall_ns + (int64_t)(seconds * 1e9);
    while (!is_complete(t)) {
        int64_t now = now_ns();
        deadline_check(now);
        bool more = read_ready(t), stopping = now >= stop;
        for (int i = 0; i < t->flow_count; i++)
            more |= t->o->qos ? pump_window(&t->flows[i], stopping, (uint64_t)t->o->inflight)
                              : pump_blocks(&t->flows[i], stopping);
        conns_poll(t->epfd, more ? 0 : 100, 0);
    }
    *to = usage_now(t->o->pid);
    settle(t);
}

/* ---- the modes -------------------------------------------------------------- */

void run_mqtt(const struct options *o)
{
    struct load t = {.o = o, .epfd = epoll_create1(EPOLL_CLOEXEC), .flow_count = o->flows};
    struct usage from, to;
    uint64_t published = 0, delivered = 0;
    if (o->payload > PAYLOAD_MOST || (o->qos && o->payload < TOKEN))
        fail("mqtt: a --payload of at most %d bytes, and with --qos 1 and 2 of at least %d", PAYLOAD_MOST, TOKEN);
    if (o->inflight > IDENTIFIERS)
        fail("mqtt: an --inflight of at most %d", IDENTIFIERS);
    t.flows = must_alloc(sizeof *t.flows * (size_t)(t.flow_count + 1));
    for (int i = 0; i < t.flow_count; i++)
        build_flow(&t, &t.flows[i], i);
    for (int i = 0; i < t.conn_count; i++)
        conn_async(t.conns[i], t.epfd);
    if (o->warmup > 0)
        run_phase(&t, o->warmup, &from, &to);
    run_phase(&t, o->seconds, &from, &to);
    for (int i = 0; i < t.flow_count; i++) {
        published += t.flows[i].begun;
        for (int s = 0; s < t.flows[i].subscriber_count; s++)
            delivered += t.flows[i].subscribers[s]->received;
    }
    printf("{\"published\": %llu, \"delivered\": %llu, ", (unsigned long long)published,
           (unsigned long long)delivered);
    print_usage(&from, &to);
    printf("}\n");
}

/* `connections` handshakes at once. */
void run_mqtt_idle(const struct options *o)
{
    struct usage from, to;
    long rss_before, pss_before, rss_after, pss_after;
    struct conn some[256];
    char packet[128], byte;
    int epfd = epoll_create1(EPOLL_CLOEXEC);
    if (!o->pid)
        fail("mqtt-idle: needs --pid");
    memory_of(o->pid, &rss_before, &pss_before);
    from = usage_now(o->pid);
    for (uint64_t opened = 0; opened < o->count;) {
        int n = 0;
        for (; n < o->connections && opened + (uint64_t)n < o->count; n++) {
            memset(&some[n], 0, sizeof some[n]);
            some[n].fd = tcp_socket(SOCK_CLOEXEC);
            if (tcp_connect(some[n].fd, o->port))
                fail("connect to port %d: %s", o->port, strerror(errno));
            conn_send_all(&some[n], packet, put_connect(packet, (int)opened + n));
        }
        for (int i = 0; i < n; i++)
            expect_packet(&some[i], ACCEPTED, sizeof ACCEPTED, "CONNECT");
        opened += (uint64_t)n;
        deadline_check(now_ns());
    }
    to = usage_now(o->pid);
    for (int64_t end = now_ns() + (int64_t)(o->settle * 1e9); now_ns() < end;)
        if (recv(some[0].fd, &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN)
            fail("mqtt-idle: the server said something, or closed");
        else
            conns_poll(epfd, 100, 0);
    memory_of(o->pid, &rss_after, &pss_after);
    printf("{\"connects\": %llu, \"rss_before_kb\": %ld, \"pss_before_kb\": %ld, \"rss_after_kb\": %ld, "
           "\"pss_after_kb\": %ld, ",
           (unsigned long long)o->count, rss_before, pss_before, rss_after, pss_after);
    print_usage(&from, &to);
    printf("}\n");
}
