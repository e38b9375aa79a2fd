/* The answer to the current task, while the script writes it. It is sent as a whole, in parts as the script flushes its output,
 * or as a file: docs/reference/protocol.md, sections 11 and 12. */
#include "answer.h"
#include "answer_file.h"
#include "clock.h"
#include "worker.h"
#include <stdio.h>
#include <string.h>

/* A caller of a request that grants less gets a whole answer, because the first part has the whole head, in bytes. */
#define MIN_CREDIT (72 << 10)
/* The largest body of one part, in bytes. */
#define MAX_PART (64 << 10)
/* The largest field with the length of a body, in bytes. */
#define LENGTH_FIELD 40
/* A body above this is written to a file, or sent in parts, in bytes. */
#define MAX_KEPT (128 << 10)
/* The largest result of a job that is kept, in bytes. */
#define MAX_RESULT (64 << 10)
/* The shortest time between two polls for CANCEL while the script writes, in microseconds. */
#define POLL_TIME 5000

struct answer answer;
/* The task that is answered; NULL when the answer is done. */
static const struct task *task;
static bool accepts_parts;
static uint64_t began_at, polled_at;
/* The output that was dropped, because a job's result or the frame has no room for it, in bytes. */
static size_t dropped;
/* The output that was kept or sent, in bytes. */
static uint64_t written;

void answer_begin(const struct task *of)
{
    struct wire_entry entry;
    task = of;
    answer.head.len = answer.body.len = dropped = 0;
    written = 0;
    answer.length = -1;
    answer.has_head = answer.has_no_body = answer.has_begun = answer.is_given = answer.is_done = false;
    answer.invalid = NULL;
    accepts_parts = wire_find(of->meta, of->meta_len, WIRE_PARTS_CREDIT, &entry) && entry.len == 4;
    worker.credit = accepts_parts ? wire_u32(entry.value) : 0;
    accepts_parts &= !of->is_http || worker.credit >= MIN_CREDIT;
    worker.is_cancelled = worker.is_ending = false;
    began_at = polled_at = clock_now();
}

static uint32_t worked(void)
{
    uint64_t time = clock_now() - began_at;
    return time == 0 ? 1 : time > UINT32_MAX ? UINT32_MAX : (uint32_t)time;
}

/* Polls for CANCEL, unless it polled less than POLL_TIME ago. Returns false if the answer is no longer wanted. */
static bool is_wanted(void)
{
    uint64_t now = clock_now();
    if (!worker.is_cancelled && now - polled_at >= POLL_TIME) {
        polled_at = now;
        worker_receive(0);
    }
    return !worker.is_cancelled && !worker.is_cut_off;
}

static void send_part(const struct buffer *head, size_t len)
{
    struct wire_frame frame = {.type = answer.has_begun ? WIRE_DATA : WIRE_RES, .flags = WIRE_MORE, .id = task->id};
    frame.prio = !answer.has_begun && task->is_http ? WIRE_HTTP : WIRE_RAW;
    struct buffer body = {.bytes = answer.body.bytes, .len = len};
    worker_frame(&frame, head, &body);
    answer.has_begun = true;
    worker.credit -= (head ? head->len : 0) + len;
    buffer_skip(&answer.body, len);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Adds a field to the complete head. */
static void add_length(void)
{
    if (answer.length < 0)
        return;
    answer.head.len -= 2; /* The empty line. */
    buffer_format(&answer.head, "content-length: %lld\r\n\r\n", (long long)answer.length);
}

/* Sends the output so far, as fast as the caller reads. Returns false if the caller no longer wants the answer. */
static bool stream(void)
{
    if (!answer.has_begun) {
        /* Otherwise the frame determines the length. */
        add_length();
        send_part(&answer.head, smaller(answer.body.len, smaller(worker.credit, MAX_PART) - answer.head.len));
    }
    while (answer.body.len > 0) {
        while (worker.credit == 0 && !worker.is_cancelled && !worker.is_cut_off)
            worker_receive(-1);
        if (!is_wanted())
            return false;
        send_part(NULL, smaller(answer.body.len, smaller(worker.credit, MAX_PART)));
    }
    return is_wanted();
}

static bool may_stream(void)
{
    bool can_begin = accepts_parts && !answer.invalid && !answer.has_no_body && !answer.is_given && !answer_file_is_open()
        && answer.head.len + LENGTH_FIELD <= smaller(worker.credit, MAX_PART);
    return answer.has_begun || can_begin;
}

bool answer_flush(void)
{
    if (answer.is_done)
        return true;
    return may_stream() ? stream() : is_wanted();
}

/* The largest whole body, in bytes. */
static size_t room(void)
{
    size_t other = WIRE_HEADER - 4 + answer.head.len;
    return task->is_job ? MAX_RESULT : worker.max_frame > other ? worker.max_frame - other : 0;
}

static bool keep(const char *bytes, size_t len)
{
    if (len > room() - smaller(room(), answer.body.len)) {
        dropped += len;
        return is_wanted();
    }
    buffer_add(&answer.body, bytes, len);
    return answer.body.len < MAX_KEPT || is_wanted();
}

bool answer_write(const char *bytes, size_t len)
{
    if (answer.is_done || answer.has_no_body || answer.invalid)
        return answer.is_done || is_wanted();
    if (answer.is_given) {
        worker_event(WIRE_LOG, 1, bytes, len);
        return true;
    }
    if (answer.length >= 0)
        len = smaller(len, (uint64_t)answer.length - written); /* More was not announced. */
    written += len;
    if (answer_file_is_open()) {
        if (!answer_file_write(bytes, len))
            answer.invalid = "the temporary file for a large answer can't be written";
        return is_wanted();
    }
    bool is_large = answer.body.len + len > MAX_KEPT;
    if (!answer.has_begun && is_large && task->is_http && answer_file_open(task)) {
        bool is_written = answer_file_write(answer.body.bytes, answer.body.len) && answer_file_write(bytes, len);
        if (!is_written)
            answer.invalid = "the temporary file for a large answer can't be written";
        buffer_reset(&answer.body);
        return is_wanted();
    }
    if (answer.has_begun || (is_large && may_stream())) {
        buffer_add(&answer.body, bytes, len);
        return answer.body.len < MAX_PART || stream();
    }
    return keep(bytes, len);
}

bool answer_give(const char *bytes, size_t len)
{
    if (answer.has_begun || answer.is_done)
        return false;
    if (!answer.is_given && answer.body.len > 0)
        worker_event(WIRE_LOG, 1, answer.body.bytes, answer.body.len);
    buffer_reset(&answer.body);
    answer.is_given = true;
    if (len > room())
        dropped = len;
    else
        buffer_add(&answer.body, bytes, len);
    return true;
}

static void fail(uint8_t status, const struct verdict *verdict)
{
    struct buffer meta = {0}, text = {.bytes = (char *)verdict->text, .len = strlen(verdict->text)};
    if (verdict->class)
        wire_entry(&meta, WIRE_ERROR_CLASS, verdict->class, strlen(verdict->class));
    if (verdict->place)
        wire_entry(&meta, WIRE_ERROR_PLACE, verdict->place, strlen(verdict->place));
    struct wire_frame frame = {
        .type = answer.has_begun ? WIRE_DATA : WIRE_RES, .code = status, .id = task->id, .ttl = worked(),
        .meta = meta.bytes, .meta_len = (uint16_t)meta.len,
    };
    worker_frame(&frame, &text, NULL);
    buffer_free(&meta);
}

static void succeed(void)
{
    bool is_last = answer.has_begun;
    if (is_last && !(stream())) {
        fail(WIRE_CANCELLED, &(struct verdict){.text = "the caller no longer waits for the rest of the answer"});
        return;
    }
    struct wire_frame frame = {.type = is_last ? WIRE_DATA : WIRE_RES, .id = task->id, .ttl = worked()};
    frame.prio = !is_last && task->is_http ? WIRE_HTTP : WIRE_RAW;
    worker_frame(&frame, is_last ? NULL : &answer.head, &answer.body);
}

/* Decides what is wrong with the complete answer. */
static void examine(void)
{
    static char text[200];
    if (!answer.invalid && !answer.has_no_body && answer.length > (int64_t)written) {
        snprintf(text, sizeof text, "the answer ended %lld bytes before its content-length", (long long)answer.length - (long long)written);
        answer.invalid = text;
    }
    if (answer.invalid || answer.has_begun || dropped == 0)
        return;
    size_t len = answer.body.len + dropped;
    if (!task->is_job) {
        snprintf(text, sizeof text,
                 "the answer has more than %zu bytes: let the application write it to a file, and send the file with the header X-Sendfile",
                 worker.max_frame);
        answer.invalid = text;
        return;
    }
    /* The job still counts as done, because failing it would repeat its work. */
    int count = snprintf(text, sizeof text, "The result of %zu bytes exceeds the maximum of %d bytes and is dropped.\n", len, MAX_RESULT);
    worker_event(WIRE_LOG, 2, text, (size_t)count);
    buffer_reset(&answer.body);
}

void answer_end(const struct verdict *verdict)
{
    if (answer.is_done)
        return;
    answer.is_done = true;
    examine();
    if (answer.has_no_body)
        buffer_reset(&answer.body);
    bool has_failed = verdict->status != WIRE_OK && (!task->is_http || answer.has_begun);
    if (worker.is_cancelled) {
        fail(WIRE_CANCELLED, &(struct verdict){.text = "the task was cancelled, or its deadline has passed"});
    } else if (has_failed) {
        fail(verdict->status, verdict);
    } else if (answer.invalid) {
        fail(WIRE_EXCEPTION, &(struct verdict){.text = answer.invalid});
    } else if (task->is_http && !answer.has_head) {
        fail(WIRE_EXCEPTION, &(struct verdict){.text = "the script wrote no answer"});
    } else {
        answer_file_finish(&answer.head);
        succeed();
    }
    answer_file_drop();
    buffer_reset(&answer.body);
    worker.current = NULL;
    task = NULL;
}
