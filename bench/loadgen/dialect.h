/* dialect.h - what clients of stored streams say; see dialect.c. */
#ifndef DIALECT_H
#define DIALECT_H

#include "loadgen.h"

/* The cluster, the channel, the stream and its only subject. */
#define NAME "bench"
#define STAN_SUBJECT_MAX 128

enum { SID_DATA = 1, SID_ANSWERS, SID_HEARTBEATS };
enum { START_LAST_RECEIVED = 1, START_FIRST = 4 };

/* One client: a connection that asks for things, and gets data. */
struct link {
    struct conn *conn;
    int number, epfd;
    enum dialect dialect;
    void (*on_data)(struct link *, const struct message *);
    void *owner;
    char client_id[16], conn_id[32];
    char publish[STAN_SUBJECT_MAX], subscribe[STAN_SUBJECT_MAX], unsubscribe[STAN_SUBJECT_MAX];
    char close[STAN_SUBJECT_MAX], sub_close[STAN_SUBJECT_MAX];
    char answer[8192];
    size_t answer_len;
    bool answered;
};

/* One field of a protobuf message: a number, or bytes. */
struct field {
    uint64_t number, value;
    const char *bytes; /* NULL for a number */
    size_t len;
};

char *put_varint(char *to, uint64_t value);
char *put_bytes(char *to, int field, const void *bytes, size_t n);
char *put_text(char *to, int field, const char *text);
char *put_number_field(char *to, int field, uint64_t value);
bool next_field(const char **at, const char *end, struct field *f);

struct link *link_open(const struct options *o, int epfd, int number);
void link_work(struct link *l, int timeout_ms);
void link_ask(struct link *l, const char *subject, const char *body, size_t n);
void link_sync(struct link *l);
void link_leave(struct link *l);
void link_listen(struct link *l, const char *subject);

void stan_subscribe(struct link *l, const char *inbox, int in_flight, const char *durable, int start,
                    char *ack_inbox);
void stan_unsubscribe(struct link *l, const char *subject, const char *ack_inbox, const char *durable);
void jetstream_ask(struct link *l, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint64_t answer_number(const struct link *l, const char *key);

#endif
