/* A file for the body of a large answer, which the gateway sends and removes. */
#ifndef STOKER_ANSWER_FILE_H
#define STOKER_ANSWER_FILE_H

#include "task.h"

bool answer_file_is_open(void);
/* Makes a new file in the answer directory of the task. Returns false if it names none, or no file can be made there. */
bool answer_file_open(const struct task *task);
/* Returns false if there is no room. */
bool answer_file_write(const char *bytes, size_t len);
/* Names the file in the head of the response, if there is one. */
void answer_file_finish(struct buffer *head);
/* Closes the file, and removes it unless answer_file_finish() has named it. */
void answer_file_drop(void);

#endif
