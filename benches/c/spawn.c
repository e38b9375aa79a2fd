/* A bare loop of fork, exec and wait: the cost of one process per task without supervision.
 *
 *   spawn AT_ONCE COUNT COMMAND...
 *
 * Prints lives per second, and this process's own CPU time per life. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "io.h"

extern char **environ;

static void start(char **command)
{
	int failed = posix_spawnp(NULL, command[0], NULL, NULL, command, environ);

	if (failed)
		die("%s: %s", command[0], strerror(failed));
}

static void await_one(void)
{
	int status;

	if (wait(&status) < 0)
		die("wait: %s", strerror(errno));
	if (status)
		die("a process ended with status %d", status);
}

static double own_seconds(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
	long at_once, count, started = 0, ended = 0;
	uint64_t began;

	if (argc < 4)
		die("usage: spawn AT_ONCE COUNT COMMAND...");
	at_once = number("AT_ONCE", argv[1], 1, 1000);
	count = number("COUNT", argv[2], 1, 100000000);
	began = now_ns();
	for (; ended < count; ended++) {
		for (; started < count && started - ended < at_once; started++)
			start(argv + 3);
		await_one();
	}
	printf("{\"per_s\": %.1f, \"cpu_us\": %.2f}\n", (double)count * 1e9 / (double)(now_ns() - began),
	       own_seconds() * 1e6 / (double)count);
	return 0;
}
