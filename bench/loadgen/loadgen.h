/* loadgen.h - the words shared by the files of the load generator.
 *
 * The generator is one thread, one epoll descriptor and precomputed buffers.
 * It speaks the NATS client protocol over plain TCP and is meant never to be
 * the slow side: it writes whole blocks of frames and reads into one large
 * buffer.  Where every frame a connection may receive has one fixed shape,
 * counting costs one comparison of four bytes per frame; stored streams are
 * read message by message.
 *
 * conn.c      sockets, handshake, reading, writing, clocks, server counters
 * latency.c   percentiles
 * traffic.c   publish, fan-out, pairs, wildcards, headers, subscription churn
 * requests.c  request-reply with latencies
 * sessions.c  connect rate, idle connections
 * interest.c  subscriptions made known to another node of a mesh
 * dialect.c   what clients of stored streams say: NATS Streaming, JetStream, replay
 * store.c     publish to a stream and wait for its acknowledgements
 * single.c    one operation on a stream after the other: pull, acknowledge, direct get
 * consume.c   read a stored stream: durable with acknowledgements, by pulls, or replay
 * assets.c    create streams and consumers, and leave them alone
 * mqtt.c      publish and subscribe over MQTT, idle clients
 * main.c      options
 */
#ifndef LOADGEN_H
#define LOADGEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    READ_SIZE = 256 * 1024, /* one read, shared by all connections */
    WRITE_SIZE = 64 * 1024, /* one write */
    CARRY_MAX = 4096,       /* an incomplete line or head kept between reads */
    OUT_MAX = 64 * 1024,    /* control lines and small frames waiting to be written, unless conn_room */
    TOKEN = 10,             /* digits of a number that tells messages apart */
    ANY_BYTE = 1            /* in a shape: this byte of the head may be anything */
};

/* The only message a connection may receive: "MSG subj sid [reply] n\r\n" or
 * "HMSG subj sid h n\r\n", then the body and "\r\n". */
struct shape {
    char *text;   /* the whole frame; ANY_BYTE where the head varies */
    size_t head;  /* bytes of the first line with its "\r\n" */
    size_t total; /* bytes of the frame */
    /* When same_len is set: these two spans of the head must be equal
     * (the number in the subject and the sid of a wildcard subscription). */
    size_t same_a, same_b, same_len;
};

/* A message of any size; what it points to is gone when the call returns. */
struct message {
    int sid;
    const char *subject, *reply, *headers, *body;
    size_t subject_len, reply_len, headers_len, body_len;
};

struct conn {
    int fd;
    bool readable, writable;
    const struct shape *shape;                          /* NULL: no message may arrive */
    void (*on_frame)(struct conn *, const char *frame); /* NULL: only counted */
    void (*on_message)(struct conn *, const struct message *); /* instead of a shape: messages of any size */
    const char *(*take)(struct conn *, const char *p, const char *end); /* another protocol: returns what is not whole */
    uint64_t received, pongs;
    size_t skip; /* bytes of a begun frame still to come */
    bool checked_first;
    char carry[CARRY_MAX];
    size_t carry_len;
    const char *bulk; /* precomputed frames, owned by the caller */
    size_t bulk_len;
    char *out; /* written when no bulk is left */
    size_t out_len, out_max;
    int number;  /* for the owner */
    void *owner;
};

/* What has been used so far, and when. */
struct usage {
    int64_t wall_ns, server_cpu_ns, load_cpu_ns;
    int64_t machine_cpu_ns; /* all processes on all cores, and stolen time */
};

enum { LATENCY_STEP_BITS = 7, LATENCY_STEPS = 1 << LATENCY_STEP_BITS, LATENCY_BUCKETS = 64 * LATENCY_STEPS };

struct latencies {
    uint64_t buckets[LATENCY_BUCKETS], measured;
};

enum operation { NO_OPERATION, PULL, ACK, GET_SUBJECT, GET_SEQUENCE };

enum dialect { SPEAK_NATS, SPEAK_STAN, SPEAK_JETSTREAM, SPEAK_REPLAY };

struct options {
    int port, pid;
    int far_port; /* the node of the mesh that publishers and requesters are not at; or port */
    double seconds, warmup, deadline, settle;
    uint64_t count;
    size_t payload, window;
    int flows, fan, wildcards, connections, inflight, batch;
    uint64_t subjects; /* 0: one without a number */
    bool headers, unique, durable;
    bool ids;    /* store: a Nats-Msg-Id each */
    bool memory; /* store: the stream is in memory */
    int replicas; /* store: of the stream */
    double rate;  /* store: messages a second of all publishers; 0: as fast as they are taken */
    enum operation operation;
    bool spread; /* the server is several processes */
    enum dialect dialect;
    int qos;    /* mqtt: of publishers and subscribers */
    long churn; /* pairs per second; -1 none, 0 as fast as possible */
    int spin_us; /* requests: poll this long before sleeping */
};

/* conn.c */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *must_alloc(size_t size);
int64_t now_ns(void);
void deadline_start(double seconds);
void deadline_check(int64_t now);
struct usage usage_now(int pid);
void usage_add(struct usage *sum, const struct usage *from, const struct usage *to);
void print_usage(const struct usage *from, const struct usage *to);
void memory_of(int pid, long *rss_kb, long *pss_kb);

extern const char *tcp_congestion;
extern int far_pid; /* a second process whose CPU time counts, or 0 */
int tcp_socket(int flags);
int tcp_connect(int fd, int port);
extern const char CONNECT_LINE[];
struct conn *conn_dial(int port);
struct conn *conn_open(int port);
void conn_send_all(struct conn *c, const char *text, size_t n);
void conn_sync(struct conn *c);
void conn_close(struct conn *c);
void await_interest(int told_port, int asking_port);
void conn_async(struct conn *c, int epfd);
void conn_room(struct conn *c, size_t most);
void conn_put(struct conn *c, const char *text, size_t n);
void conn_flush(struct conn *c);
void conn_write_bulk(struct conn *c);
void conn_read(struct conn *c);
void put_token(char *at, uint64_t number);
void conns_poll(int epfd, int timeout_ms, int spin_us);
struct shape *shape_new(const char *head, const char *body, size_t body_len);

/* latency.c */
void latencies_clear(struct latencies *l);
void latencies_add(struct latencies *l, int64_t ns);
void latencies_print(const struct latencies *l);

/* The modes; each prints one line of JSON, or fails. */
void run_traffic(const struct options *o);
void run_requests(const struct options *o);
void run_connects(const struct options *o);
void run_idle(const struct options *o);
void run_store(const struct options *o);
void run_consume(const struct options *o);
void run_single(const struct options *o);
void run_assets(const struct options *o);
void run_interest(const struct options *o);
void run_mqtt(const struct options *o);
void run_mqtt_idle(const struct options *o);

#endif
