/* Lets check_frames.py test frame.h: for each line of hex on stdin, prints the header as it was read and as it is
 * written, or "incomplete" or "refused". */
#include <stdio.h>

#include "frame.h"

enum { MAX_FRAME = 64 * 1024 };

static size_t from_hex(const char *hex, uint8_t *bytes)
{
	size_t n = 0;
	unsigned byte;

	while (n < MAX_FRAME && sscanf(hex + 2 * n, "%2x", &byte) == 1)
		bytes[n++] = (uint8_t)byte;
	return n;
}

static void show(const struct frame *f)
{
	uint8_t header[HEADER];

	frame_header(header, f, frame_body_len(f));
	printf("%u %u %u %u %u %u %u %u %u %u ", f->type, f->flags, f->code, f->prio, f->id, f->ttl, f->attempt,
	       f->name_len, f->meta_len, frame_body_len(f));
	for (int i = 0; i < HEADER; i++)
		printf("%02x", header[i]);
	putchar('\n');
}

int main(void)
{
	static char line[2 * MAX_FRAME + 2];
	static uint8_t bytes[MAX_FRAME];

	while (fgets(line, sizeof line, stdin)) {
		struct frame f;
		int got = frame_parse(bytes, from_hex(line, bytes), MAX_FRAME, &f);

		if (got > 0)
			show(&f);
		else
			puts(got ? "refused" : "incomplete");
	}
	return 0;
}
