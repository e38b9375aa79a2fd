/* Parses mutated requests and random frames; the sanitizers that this is built with end it at the first mistake. The argument is the seed. */
#include "control.h"
#include "request.h"
#include "variables.h"
#include "worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 20000
#define ROOM 200

static const char *const seeds[] = {
    "GET https://shop.test:8443/index.php/a%20b%00?x=1 HTTP/2\r\nhost: shop.test:8443\r\ncookie: a=1\r\ncookie: b=2\r\nx-a: 1\r\n"
    "x-a: 2\r\nproxy: e\r\nx_b: 1\r\ncontent-type: a/b\r\ncontent-length: 5\r\n\r\nhello",
    "OPTIONS http://[::1]:80 HTTP/1.0\r\nhost: a\r\n\r\n",
    "POST http://a?b HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
};
static const char *const clients[] = {"[::1]:5", "1.2.3.4:5", "]:", "[:", "x", ":", "[]"};
static const char *const roots[] = {"/srv/public", "/", "", "/srv/public///"};

static size_t below(size_t limit)
{
    return (size_t)rand() % limit;
}

/* Copies a string with a few changes. Returns its length. */
static size_t mutate(char *bytes, const char *text)
{
    size_t len = strlen(text);
    memcpy(bytes, text, len);
    for (size_t left = below(4); left > 0; left--) {
        size_t at = below(len), size = below(20);
        switch (below(4)) {
        case 0:
            bytes[at] = (char)rand();
            break;
        case 1:
            memmove(bytes + at, bytes + at + 1, len - at - 1);
            len--;
            break;
        case 2:
            bytes[at] = "\r\n :%/?[]"[below(10)];
            break;
        default:
            if (at + size < len && len + size < strlen(text) + ROOM) {
                memmove(bytes + at + size, bytes + at, len - at);
                len += size;
            }
        }
    }
    return len;
}

static void use(struct task *task)
{
    size_t count;
    char piece[100];
    const struct variable *all = variables_all(&count);
    for (size_t at = 0; at < count; at++)
        if (strlen(all[at].value) != all[at].len)
            abort();
    variables_cookies();
    while (body_read(&request.body, piece, 7) > 0)
        ;
    task_unknown_key(task);
}

static bool try_request(void)
{
    struct buffer meta = {0}, bytes = {0}, body = {0};
    const char *text = seeds[below(3)], *client = clients[below(7)], *root = roots[below(4)];
    buffer_reserve(&body, strlen(text) + ROOM);
    body.len = mutate(body.bytes, text);
    wire_entry(&meta, WIRE_SCRIPT, "/srv/public/index.php", 21);
    wire_entry(&meta, WIRE_CLIENT_ADDRESS, client, strlen(client));
    wire_entry(&meta, WIRE_DOCUMENT_ROOT, root, strlen(root));
    struct wire_frame frame = {.type = WIRE_REQ, .code = WIRE_HTTP, .id = 1, .name = "http:a.request", .name_len = 14,
                               .meta = meta.bytes, .meta_len = (uint16_t)meta.len, .body_len = body.len}, parsed;
    wire_head(&bytes, &frame);
    buffer_add(&bytes, body.bytes, body.len);
    if (!wire_parse(bytes.bytes, bytes.len, &parsed))
        abort();
    struct task *task = task_of(&parsed);
    bool is_valid = request_begin(task, NULL, false) == NULL;
    if (is_valid)
        use(task);
    request_end();
    free(task);
    buffer_free(&meta);
    buffer_free(&bytes);
    buffer_free(&body);
    return is_valid;
}

static void try_frame(void)
{
    size_t len = 4 + below(80);
    char *bytes = malloc(len), label[37];
    for (size_t at = 0; at < len; at++)
        bytes[at] = (char)rand();
    memset(bytes, 0, 3);
    bytes[3] = (char)below(90);
    if (len >= WIRE_HEADER) {
        bytes[4] = below(2) ? WIRE_REQ : WIRE_CREDIT;
        bytes[5] = bytes[16] = 0;
        bytes[17] = (char)below(8);
        bytes[18] = (char)below(4);
    }
    worker.is_cut_off = false;
    control_take_all(bytes, len);
    free(bytes);
    while (worker.first) {
        struct task *task = worker.first;
        worker.first = task->next;
        task_unknown_key(task);
        task_label(task, label);
        free(task);
    }
    worker.last = &worker.first;
}

int main(int count, char **words)
{
    srand(count > 1 ? (unsigned)atoi(words[1]) : 1);
    worker.last = &worker.first;
    size_t valid = 0;
    for (int round = 0; round < ROUNDS; round++) {
        valid += try_request();
        try_frame();
    }
    printf("%zu of %d requests were valid\n", valid, ROUNDS);
    return valid > 0 && valid < ROUNDS ? 0 : 1;
}
