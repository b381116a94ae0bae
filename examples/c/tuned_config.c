/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job does at its start: asks for the tuned config of a kernel, and says what it is worth.
 *
 *   tuned_config softmax rows=4096 cols=1024
 *
 * With TUNE_RECORD_MISSES=1 in the environment, what nobody tuned is tuned in the background.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tune/tune.h>

enum { DIMS_MAX = 16 };

/* "rows=4096" in two. Cuts the text where it is one. */
static int parse_dim(char* text, tune_dim* dim) {
  char* equals = strchr(text, '=');
  char* end = NULL;
  if (equals == NULL) return -1;
  errno = 0;
  dim->name = text;
  dim->value = strtoll(equals + 1, &end, 10);
  if (errno != 0 || end == equals + 1 || *end != '\0') return -1;
  *equals = '\0';
  return 0;
}

static void print_answer(const tune_client* client, const tune_answer* answer) {
  tune_record record;
  tune_param param;
  const char* device = tune_answer_device(answer); /* empty: no record tells of one */
  printf("%s%s%s: %s\n", tune_answer_kernel(answer), device[0] != '\0' ? " on " : "", device,
         tune_answer_reason(answer));
  for (size_t i = 0; tune_answer_param(answer, i, &param) == TUNE_OK; ++i) {
    printf("  -D%s=%s\n", param.name, param.text);
  }
  tune_answer_record(answer, &record);
  if (record.latency_ns > 0) printf("  %.1f us, %s\n", record.latency_ns / 1e3, record.confidence);
  /* Equal on all ranks that pin one snapshot. */
  printf("snapshot %s from %s\n", tune_client_digest(client), tune_client_source(client));
}

int main(int argc, char** argv) {
  tune_dim dims[DIMS_MAX];
  tune_question question = {0};
  tune_client* client = NULL;
  tune_answer* answer = NULL;
  const char* note;
  question.size = sizeof(question);
  question.dims = dims;
  if (argc < 2 || argc > DIMS_MAX + 2) {
    fprintf(stderr, "usage: %s KERNEL DIM=VALUE...\n", argv[0]);
    return 2;
  }
  question.kernel = argv[1];
  for (int i = 2; i < argc; ++i) {
    if (parse_dim(argv[i], &dims[question.dim_count++]) != 0) {
      fprintf(stderr, "'%s' is no DIM=VALUE\n", argv[i]);
      return 2;
    }
  }
  /* A daemon that is away is no error: the answer is a default then. What failed is told. */
  if (tune_open(NULL, &client) != TUNE_OK || tune_best(client, &question, &answer) != TUNE_OK) {
    fprintf(stderr, "%s\n", tune_error());
    tune_close(client);
    return 1;
  }
  for (size_t i = 0; (note = tune_client_note(client, i)) != NULL; ++i) {
    fprintf(stderr, "note: %s\n", note);
  }
  print_answer(client, answer);
  tune_answer_free(answer);
  /* A job goes on to its work; a program that is over in a moment waits until its miss is told. */
  if (tune_misses_wait(client, 10) != TUNE_OK) fprintf(stderr, "note: %s\n", tune_error());
  for (size_t i = 0; (note = tune_misses_note(client, i)) != NULL; ++i) printf("told: %s\n", note);
  tune_close(client);
  return 0;
}
