/* What this process offers to the server. */
#include "hello.h"
#include "worker.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *hello_sites(void)
{
    const char *sites = getenv("STOKER_SITES");
    return sites ? sites : "";
}

static void add_sites(struct buffer *hello, const char *sites)
{
    const char *comma = "";
    for (size_t len; *sites; sites += len + (sites[len] == ',')) {
        len = strcspn(sites, ",");
        if (len == 0)
            continue;
        buffer_format(hello, "%s\"http:%.*s.request\"", comma, (int)len, sites);
        comma = ",";
    }
}

void hello_send(int fd, bool has_script)
{
    struct buffer hello = {0};
    buffer_format(&hello, "\"v\":[1],\"role\":\"worker\",\"name\":\"stoker-php\",\"pid\":%d,\"slots\":1,\"soft_cancel\":true,\"calls\":[", getpid());
    add_sites(&hello, hello_sites());
    buffer_text(&hello, has_script ? "],\"jobs\":[\"*\"]" : "]");
    if (worker.tasks_left < UINT64_MAX)
        buffer_format(&hello, ",\"tasks\":%llu", (unsigned long long)worker.tasks_left);
    buffer_add(&hello, "", 1);
    worker_open(fd, hello.bytes);
    buffer_free(&hello);
}
