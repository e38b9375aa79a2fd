/* What a script learns about its task. */
#include "request.h"
#include "variables.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request request;

const char *request_begin(struct task *task, const char *script, bool runs_all)
{
    static char text[4700];
    request.task = task;
    if (!task->is_http) {
        body_of_task(&request.body, task);
        request.script = strdup(script);
        return request.script ? NULL : "there is no memory for the task";
    }
    request.body.file = -1;
    request.script = runs_all ? strdup(script) : task_text(task, WIRE_SCRIPT);
    const char *invalid = message_parse(&request.message, task->body, task->body_len);
    if (!invalid)
        invalid = body_of_message(&request.body, task, &request.message);
    if (!invalid && !request.script)
        invalid = "it names no script to run: set `root` of the site to the directory with its front controller";
    if (invalid) {
        snprintf(text, sizeof text, "the request can't be run: %s", invalid);
        return text;
    }
    return NULL;
}

void request_end(void)
{
    variables_free();
    body_close(&request.body);
    free(request.script);
    request.script = NULL;
    request.task = NULL;
}
