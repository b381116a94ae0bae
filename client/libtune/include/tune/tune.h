/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuned configs of GPU kernels, for jobs: libtune's C interface. tune.hpp is the same for C++.
 *
 *   tune_client* client;
 *   tune_answer* answer;
 *   tune_dim dims[] = {{"rows", 4096}, {"cols", 1024}};
 *   tune_question question = {.size = sizeof(question), .kernel = "softmax", .dims = dims,
 *                             .dim_count = 2};
 *   if (tune_open(NULL, &client) != TUNE_OK) ...                  // tune_error() says why
 *   if (tune_best(client, &question, &answer) != TUNE_OK) ...
 *   int64_t threads = tune_answer_integer(answer, "ROW_THREADS", 128);
 *   tune_answer_free(answer);
 *   tune_close(client);
 *
 * A client is a snapshot: a set of records that never changes, named by the SHA-256 of its file.
 * tune_open finds it, once. No call fails because a daemon is away: the answer is then a default
 * and says so. docs/training-jobs.md of the project is the guide.
 *
 * Waiting. Only these later calls wait: tune_artifact, tune_program_open, tune_misses_wait and
 * tune_watch_look; and tune_close and tune_watch_close, which end the handle's background threads.
 * These drop a question to a daemon at once, but finish reading a file. No call waits for a lock
 * that another thread holds while it waits itself, nor for one that was held when the process
 * forked.
 *
 * Threads. All functions but a watch's are thread-safe. None throws. tune_open alone reads the
 * environment, on its caller's thread; background threads use its copy, so variables that a job
 * sets later apply to its next client.
 *
 * Memory. Texts are UTF-8, end with a zero, live as long as the handle that they came from, and are
 * never NULL unless the function's comment says so. A NULL handle may be closed or freed.
 */
#ifndef TUNE_TUNE_H_
#define TUNE_TUNE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TUNE_API __attribute__((visibility("default")))
#else
#define TUNE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or a field is added. Existing ones do not change. */
#define TUNE_ABI_VERSION 4
/* The TUNE_ABI_VERSION of the loaded library. */
TUNE_API uint32_t tune_abi_version(void);

/* Values do not change; they are gRPC's. */
typedef enum tune_status {
  TUNE_OK = 0,
  TUNE_INVALID_ARGUMENT = 3,    /* a mistake of the caller: an unknown dim, a malformed digest */
  TUNE_DEADLINE_EXCEEDED = 4,   /* the wait took too long */
  TUNE_NOT_FOUND = 5,           /* no record of this very problem; no such artifact */
  TUNE_RESOURCE_EXHAUSTED = 8,  /* out of memory or threads */
  TUNE_FAILED_PRECONDITION = 9, /* several ranks, and no snapshot is pinned */
  TUNE_INTERNAL = 13            /* a defect of the library */
} tune_status;

/* Why this thread's last failed call failed, a sentence. Valid until the next call. */
TUNE_API const char* tune_error(void);

/* ---- A snapshot ---- */

typedef struct tune_client tune_client;

typedef struct tune_options {
  uint32_t size; /* sizeof(tune_options) of the caller */
  /* "sha256:<64 hex digits>", the path of an exported file, or "latest". NULL: TUNE_SNAPSHOT's,
   * else the newest. A digest or a path gives that snapshot or none, never another. */
  const char* snapshot;
  /* The daemon's address: "unix:/path", or "host:port", which is TLS. NULL: TUNE_ADDRESS's, else
   * the host's socket. */
  const char* address;
  /* Seconds that the daemon has to answer, if it is asked. 0: 0.25. Negative: it is not asked. */
  double deadline;
  /* Whether to report untuned problems to the daemon (see "Misses"). 1: yes. -1: no. 0: if
   * TUNE_RECORD_MISSES is 1. */
  int record_misses;
  /* The folder of the last source of answers: its snapshot.json, else its *.records.json.gz. NULL:
   * share/tunectl of the install. */
  const char* bundle;
} tune_options;

/* Finds a snapshot: a file, else the node's cache, else the daemon's, else the one beside the
 * library. Without any, the client answers with defaults. Options may be NULL.
 * TUNE_INVALID_ARGUMENT: the digest is malformed. TUNE_FAILED_PRECONDITION: WORLD_SIZE is above
 * one and no snapshot is named, so that ranks might read different ones. */
TUNE_API tune_status tune_open(const tune_options* options, tune_client** client);
TUNE_API void tune_close(tune_client* client);

/* The snapshot's digest, "sha256:...": equal on all ranks that read the same. "" without one. */
TUNE_API const char* tune_client_digest(const tune_client* client);
/* The snapshot's number, which grows with every publish of a daemon; 0 without a snapshot. */
TUNE_API int64_t tune_client_number(const tune_client* client);
/* "file", "cache", "daemon", "bundled", "none": where the snapshot came from. */
TUNE_API const char* tune_client_source(const tune_client* client);
/* Failures of the search for the snapshot, a sentence each. NULL beyond the last. */
TUNE_API const char* tune_client_note(const tune_client* client, size_t index);
/* Names of the kernels that the snapshot has, sorted. NULL beyond the last. */
TUNE_API const char* tune_client_kernel(const tune_client* client, size_t index);

/* ---- A question ---- */

typedef struct tune_dim {
  const char* name; /* as the kernel's spec names it: "rows" */
  int64_t value;
} tune_dim;

typedef struct tune_question {
  uint32_t size; /* sizeof(tune_question) of the caller */
  const char* kernel;
  const char* dtype; /* "bf16", "f32"; NULL: the spec's first */
  /* "NVIDIA H200", "cuda:0", "cpu"; NULL: this process's first GPU, else its CPU */
  const char* device;
  const tune_dim* dims; /* others take the spec's defaults */
  size_t dim_count;
  int require_exact; /* not 0: TUNE_NOT_FOUND unless this very problem was tuned on this device */
} tune_question;

/* A device of this process. The texts live until the thread's next call. */
typedef struct tune_device {
  uint32_t size;      /* sizeof(tune_device) of the caller */
  const char* id;     /* "cuda:0", "cpu" */
  const char* name;   /* "NVIDIA H200", "cpu:AMD EPYC 9654" */
  const char* target; /* "sm_90a", "cpu"; "": not known */
  const char* driver; /* its version, the system's for the CPU; "": not known */
  int64_t sm_count;   /* multiprocessors, or processors that this process may use; 0: not known */
} tune_device;
/* The first is the device of a question that names none: the GPU of the thread's current context,
 * else the first that CUDA_VISIBLE_DEVICES leaves; the CPU is the last. TUNE_NOT_FOUND: beyond the
 * last. */
TUNE_API tune_status tune_local_device(size_t index, tune_device* device);

typedef struct tune_answer tune_answer;
struct tune_param; /* see "An answer" */

/* Gives the best known config of a kernel for a problem. TUNE_INVALID_ARGUMENT: the kernel has no
 * such dim or dtype, or a value is out of its bounds. TUNE_NOT_FOUND: require_exact is set and
 * this very problem was not tuned on the device. */
TUNE_API tune_status tune_best(const tune_client* client, const tune_question* question,
                               tune_answer** answer);
TUNE_API void tune_answer_free(tune_answer* answer);

/* Answers several questions. `answers` has room for `count`, at most TUNE_BATCH_MAX, and gets the
 * answers in the order of the questions, each for tune_answer_free. All elements of `questions`
 * have the same `size`. If one question fails, no answer is given: the status is that of the first
 * that failed, and tune_error() begins with its place: "questions[2]: ...". */
#define TUNE_BATCH_MAX 65536
TUNE_API tune_status tune_best_batch(const tune_client* client, const tune_question* questions,
                                     size_t count, tune_answer** answers);

/* Explains an answer as text, for tune_free: compares the question field by field with the `most`
 * records that are most like it. */
TUNE_API tune_status tune_explain(const tune_client* client, const tune_question* question,
                                  size_t most, char** text);
/* Explains an answer as a JSON object: "text", and "candidates", a list of the records. Each has
 * "record", its number; "answers" and "config_is_valid", booleans; and "fields", a list of objects
 * with the texts "name", "rule", "asked", "there" (null if the record lacks the field) and
 * "verdict". For tune_free. */
TUNE_API tune_status tune_explain_json(const tune_client* client, const tune_question* question,
                                       size_t most, char** json);

/* ---- A kernel ---- */

/* The kernel as the snapshot's file describes it (docs/snapshots.md of the project), a JSON object:
 * its dims, and the args that a launch takes, with their shapes and dtypes as expressions. For
 * tune_free. TUNE_NOT_FOUND: the snapshot has no such kernel. */
TUNE_API tune_status tune_kernel_json(const tune_client* client, const char* kernel, char** json);
/* Evaluates an expression of a kernel's spec, such as an axis of an arg's shape. It may use the
 * dims and the dtype of `problem`, which are taken as they are, without defaults or bounds; the
 * target ("sm_90a"; NULL: the CPU's); and the spec's lets that depend on these alone. `value` has
 * no name, and its text lives until the thread's next call. TUNE_INVALID_ARGUMENT: the expression
 * cannot be evaluated. TUNE_NOT_FOUND: no such kernel.
 *
 * A launch on arrays that are not contiguous: for each arg of tune_kernel_json that has `value`, or
 * `dims` and `strides`, these expressions give the scalar, or the tensor map in bytes, in the place
 * of tune_arg's. `problem` then has the strides among its dims, in elements: "x_stride_0". */
TUNE_API tune_status tune_evaluate(const tune_client* client, const tune_question* problem,
                                   const char* target, const char* expression,
                                   struct tune_param* value);

/* ---- Winners of other tuners ---- */

/* The entries of another tuner, such as "helion", that the snapshot carries from the daemon's
 * vault: a JSON list of pairs of texts, key and value, newest first; the value is JSON. For
 * tune_free. Since version 4. */
TUNE_API tune_status tune_vault_json(const tune_client* client, const char* tuner, char** json);

/* ---- Misses ---- */

/* A miss is a question whose problem nobody tuned on the device. It is answered at once with the
 * best there is; a client that records misses also reports it, and the daemon tunes it in the
 * background. A background thread, which handles no signals, collects misses for two seconds and
 * reports them by tune-fetch, which has 30 s. A process reports each problem once, 10000 at most,
 * also if that fails. The daemon tunes each once, however many clients report it. Only the process
 * that opened the client reports; a forked child does not, nor does a client that asks no
 * daemon. */

/* Reports the queued misses now, for the end of a short program, and waits at most `seconds`, an
 * hour at most. TUNE_OK: none is left. TUNE_DEADLINE_EXCEEDED: some were still unsent. */
TUNE_API tune_status tune_misses_wait(const tune_client* client, double seconds);
/* The results of this process's reports to this daemon, a sentence each: "softmax rows=3 cols=5:
 * sweep 12, queued". NULL beyond the last. */
TUNE_API const char* tune_misses_note(const tune_client* client, size_t index);

/* ---- A watch ---- */

/* Looks for newer snapshots in a thread of its own, which handles no signals. The client's answers
 * do not change: the job polls for better ones and takes them when it suits it, between two steps,
 * say. A watch is used by one thread at a time, and may outlive its client. In a forked child it
 * finds nothing. */
typedef struct tune_watch tune_watch;

/* `every`: seconds between two looks, 0.1 to 86400; 0: 30. TUNE_RESOURCE_EXHAUSTED: no
 * thread can be started. */
TUNE_API tune_status tune_watch_open(const tune_client* client, double every, tune_watch** watch);
/* Returns how many of the client's questions the newest known snapshot answers better. Does not
 * wait. The functions below are about the last poll, look or take. */
TUNE_API size_t tune_watch_poll(tune_watch* watch);
/* Looks now, then does the same. It may wait 10 s for the daemon. `count` may be NULL. */
TUNE_API tune_status tune_watch_look(tune_watch* watch, size_t* count);
/* The digest of the snapshot with the better answers. Rank 0 hands it to the others, and all
 * tune_open it at the same step. "" if no answer is better. */
TUNE_API const char* tune_watch_digest(const tune_watch* watch);
/* A question's present and better answer, each for tune_answer_free. TUNE_NOT_FOUND: the index is
 * beyond the last. */
TUNE_API tune_status tune_watch_better(const tune_watch* watch, size_t index, tune_answer** before,
                                       tune_answer** after);
/* Gives a client of the newest snapshot, for later questions; the watch goes on for it. The caller
 * still closes the old client. TUNE_NOT_FOUND: no answer is better. */
TUNE_API tune_status tune_watch_take(tune_watch* watch, tune_client** client);
TUNE_API void tune_watch_close(tune_watch* watch);

/* ---- An answer ---- */

typedef enum tune_match {
  TUNE_MATCH_EXACT = 1,        /* this problem was tuned on this device */
  TUNE_MATCH_BUCKETED = 2,     /* its dims lie between the same powers of two */
  TUNE_MATCH_NEAREST = 3,      /* the nearest problem, or another source of the kernel */
  TUNE_MATCH_OTHER_DEVICE = 4, /* another device of the same target */
  TUNE_MATCH_DEFAULT = 5       /* no record fits: the spec's default, or no config at all */
} tune_match;

TUNE_API tune_match tune_answer_match(const tune_answer* answer);
TUNE_API const char* tune_answer_match_name(const tune_answer* answer); /* "exact", "default" */
/* Why it answers, a sentence: which field differed, and what was used instead. */
TUNE_API const char* tune_answer_reason(const tune_answer* answer);

/* The config: its params in the spec's order. */
typedef enum tune_kind {
  TUNE_BOOLEAN = 1,
  TUNE_INTEGER = 2,
  TUNE_NUMBER = 3,
  TUNE_TEXT = 4
} tune_kind;
typedef struct tune_param {
  const char* name;
  tune_kind kind;
  int64_t integer;  /* of TUNE_BOOLEAN (0 or 1) and TUNE_INTEGER */
  double number;    /* of all but TUNE_TEXT */
  const char* text; /* as a compiler's macro: "1", "64", "0.5", "smem" */
} tune_param;
TUNE_API size_t tune_answer_param_count(const tune_answer* answer);
/* TUNE_INVALID_ARGUMENT: beyond the last. */
TUNE_API tune_status tune_answer_param(const tune_answer* answer, size_t index, tune_param* param);
/* Each returns `fallback` if the answer has no param of that name and kind. */
TUNE_API int64_t tune_answer_integer(const tune_answer* answer, const char* param,
                                     int64_t fallback);
TUNE_API const char* tune_answer_text(const tune_answer* answer, const char* param,
                                      const char* fallback);

/* The question, with the defaults filled in. */
TUNE_API const char* tune_answer_kernel(const tune_answer* answer);
TUNE_API const char* tune_answer_device(const tune_answer* answer); /* its name */
TUNE_API const char* tune_answer_target(const tune_answer* answer); /* "sm_90a", "cpu" */
/* The version of the device's driver; "": not known, as for a device of another host. */
TUNE_API const char* tune_answer_driver(const tune_answer* answer);
TUNE_API const char* tune_answer_dtype(const tune_answer* answer);
TUNE_API size_t tune_answer_dim_count(const tune_answer* answer);
TUNE_API tune_status tune_answer_dim(const tune_answer* answer, size_t index, tune_dim* dim);

/* The record that answers; all zero or "" for a default. */
typedef struct tune_record {
  int64_t id; /* its number at the daemon */
  int64_t published_unix_ms;
  double latency_ns;     /* median, in nanoseconds */
  double latency_ns_low; /* the 95 % interval of its rounds; of fewer than six their range */
  double latency_ns_high;
  const char* confidence; /* "confirmed", "tied", "noisy" */
  const char* evidence;   /* the digest of the measurement */
  const char* artifact;   /* the digest of the binary's file; "": none is kept */
} tune_record;
TUNE_API void tune_answer_record(const tune_answer* answer, tune_record* record);
/* The expected loss of the config against the best possible one (docs/lookup.md). */
typedef enum tune_basis {
  TUNE_BASIS_NOTHING = 0,    /* no measurement helps */
  TUNE_BASIS_MEASURED = 1,   /* this very problem was tuned on this device */
  TUNE_BASIS_NEIGHBOURS = 2, /* other shapes were tuned on this device */
  TUNE_BASIS_SIBLING = 3     /* shapes were tuned on another device of the target */
} tune_basis;
typedef struct tune_expectation {
  tune_basis basis;
  double loss;     /* a share: 0.02 is 2 % slower */
  double loss_low; /* nine of ten lie between */
  double loss_high;
} tune_expectation;
TUNE_API void tune_answer_expectation(const tune_answer* answer, tune_expectation* expectation);
/* The expectation in words, one sentence. */
TUNE_API const char* tune_answer_expected(const tune_answer* answer);
/* Not 0: the config was chosen from whole sweeps of other shapes. */
TUNE_API int tune_answer_is_chosen(const tune_answer* answer);
/* A tuned shape that the expectation rests on, the one with the most weight first. */
typedef struct tune_neighbour {
  uint32_t size;    /* sizeof(tune_neighbour) of the caller */
  double weight;    /* all are 1 together */
  double loss;      /* of the config there, as a share */
  size_t dim_count; /* of those that may differ */
} tune_neighbour;
/* TUNE_NOT_FOUND: beyond the last. */
TUNE_API tune_status tune_answer_neighbour(const tune_answer* answer, size_t index,
                                           tune_neighbour* neighbour);
TUNE_API tune_status tune_answer_neighbour_dim(const tune_answer* answer, size_t index, size_t dim,
                                               tune_dim* value);
/* The geometry of a launch. */
typedef struct tune_launch {
  uint32_t size; /* sizeof(tune_launch) of the caller */
  uint32_t shared_bytes;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t cluster[3];
} tune_launch;
/* What the config launches for the problem, in the order it runs. TUNE_NOT_FOUND: beyond the last;
 * there is none if only the compiler knows. */
TUNE_API tune_status tune_answer_launch(const tune_answer* answer, size_t index,
                                        tune_launch* launch);
/* The digest and the source of the client's snapshot. */
TUNE_API const char* tune_answer_snapshot(const tune_answer* answer);
TUNE_API const char* tune_answer_source(const tune_answer* answer);

/* ---- An artifact ---- */

/* Gets the file of an artifact (docs/artifacts.md), its launch facts and its binaries, from the
 * folder beside the snapshot's file, the node's cache, or the daemon, within the deadline. It is
 * native code, so it is taken only from places where no user but this one, root and
 * TUNE_DAEMON_USER can write, and its bytes must have the digest. A daemon that did not give one is
 * not asked again for a minute; a forked child of the process that opened the client asks none.
 * TUNE_NOT_FOUND: no source has it. `data` is for tune_free. */
TUNE_API tune_status tune_artifact(const tune_client* client, const char* digest, void** data,
                                   size_t* bytes);

/* ---- A program: an artifact's launches ---- */

/* The launches of an artifact's file, step by step, for cuModuleLoadData and cuLaunchKernelEx (or
 * dlopen, on the CPU device). Immutable. All pointers from it live as long as it does. */
typedef struct tune_program tune_program;

/* Gets the artifact, as tune_artifact, and reads it. TUNE_INVALID_ARGUMENT: its version is
 * unknown. */
TUNE_API tune_status tune_program_open(const tune_client* client, const char* digest,
                                       tune_program** program);
TUNE_API void tune_program_close(tune_program* program); /* NULL is fine */

typedef struct tune_step {
  const char* entry;  /* the kernel, as the binary calls it */
  const void* binary; /* a cubin, PTX or shared object, and a zero byte. Steps may share it */
  size_t binary_bytes;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t cluster[3];
  uint32_t shared_bytes; /* dynamic; above 48 KiB the function's attribute must allow it */
  int cooperative;
  int programmatic_dependent_launch;
  /* Not 0: blocks walk over the work, and grid[0] is an upper bound. Launch no more than the device
   * runs at once (cuOccupancyMaxActiveClusters): further ones would wait for their end. */
  int resident;
  size_t arg_count;  /* of parameters */
  size_t zero_count; /* of buffers that are set to zero before the launch */
} tune_step;
/* TUNE_NOT_FOUND: the index is beyond the last. */
TUNE_API tune_status tune_program_step(const tune_program* program, size_t index, tune_step* step);

typedef enum tune_arg_kind {
  TUNE_ARG_BUFFER = 1, /* the parameter is a pointer */
  TUNE_ARG_SCALAR = 2,
  TUNE_ARG_TENSOR_MAP = 3 /* the parameter is a CUtensorMap */
} tune_arg_kind;
typedef struct tune_arg {
  tune_arg_kind kind;
  const char* name;
  const char* dtype; /* "" for a tensor map: its buffer's */
  /* A buffer. */
  const char* role; /* "input", "output", "inout"; "scratch" is the caller's to allocate */
  int64_t count;    /* of elements */
  /* A scalar, as the kernel takes it, and as contiguous arrays have it. */
  const void* value;
  size_t value_bytes;
  /* A tensor map, as cuTensorMapEncodeTiled takes it; strides of all dims but the first. */
  const char* buffer;
  size_t rank;
  const uint64_t* dims;
  const uint64_t* strides_bytes;
  const uint64_t* box;
  int64_t swizzle_bytes; /* 0: none */
  int64_t l2_promotion_bytes;
} tune_arg;
/* A parameter of a step, in their order. */
TUNE_API tune_status tune_program_arg(const tune_program* program, size_t step, size_t index,
                                      tune_arg* arg);
/* A buffer that is set to zero before a step. */
TUNE_API tune_status tune_program_zero(const tune_program* program, size_t step, size_t index,
                                       tune_arg* arg);

/* A variable that is set before the first launch. */
typedef struct tune_symbol {
  const char* variable; /* as the binary calls it, for cuModuleGetGlobal */
  const void* binary;
  size_t binary_bytes;
  tune_arg buffer; /* its value */
} tune_symbol;
TUNE_API tune_status tune_program_symbol(const tune_program* program, size_t index,
                                         tune_symbol* symbol);

TUNE_API void tune_free(void* memory);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TUNE_TUNE_H_ */
