// The C face of attend: C99, the same layers, plans and runs as <attend/attend.h>, for C and for bindings.
//
// Simplest correct call (serial, best instruction set; error handling left out):
//     attend_layer* layer = NULL;
//     attend_plan* plan = NULL;
//     attend_workspace* workspace = NULL;
//     attend_shape shape = {.batch = 2, .num_queries = 1, .num_keys = 10, .query_size = 16};
//     attend_layer_create_dot(NULL, &layer, NULL);
//     attend_plan_create(layer, &shape, NULL, &plan, NULL);
//     attend_workspace_create(plan, &workspace, NULL);
//     attend_inputs inputs = {.queries = {.data = q, .rank = 3, .sizes = {2, 1, 16}},
//                             .keys = {.data = k, .rank = 3, .sizes = {2, 10, 16}}};  // values not given: the keys
//     attend_outputs outputs = {.output = {.data = out, .rank = 3, .sizes = {2, 1, 16}}};
//     attend_run(plan, &inputs, &outputs, workspace, NULL, NULL);
// Recommended: plan once for the largest request with .threads = n, keep one workspace per concurrent run and one
// executor for the process, pass an attend_error and print its message when a status is not ATTEND_OK.
//
// Left out on purpose, and in C++ alone:
//   Tiles as options of a plan, profiles, tuning and costs: for whoever fits plans to a machine, which the command
//     `attend plan` does too.
//   The reference in double precision: for tests.
//   Files, and choosing a layer by its parameters: a binding has readers of its own, and knows what it has read.
//   sequence_mask, split_heads and merge_heads: one loop, and sizes and strides that the caller can say.
//
// Rules that hold for every function, so that each says only what is its own:
//   Formulas, error bounds, special values: those of the C++ function of the same name, whose bits these are.
//   Zeroed structs mean the defaults, so {0} and designated initialisers are enough; booleans are zero or not zero.
//   Aliasing: what is written overlaps nothing that is read, other arguments included, unless said otherwise.
//   Handles are opaque, made by a create function and ended by its destroy function, for which NULL is fine and which
//     cannot fail. Layers, plans and executors may be shared between threads; a workspace serves one run, prepare or
//     append at a time. Prepared keys serve any number of runs, none of them while they are prepared or appended to.
//     No handle is destroyed while a call uses it. A plan keeps what it needs of its layer, and prepared keys what they
//     need of their plan: either may be destroyed first.
//   Thread-safety and allocation: all functions are thread-safe under these rules; there is no global or thread-local
//     state but facts of the CPU, which a process's first calls find out (on CPUs with AMX they ask Linux for its use,
//     as attend::Parts in attend/plan.h says). Create functions, targets, explanations and masked softmax on a target
//     by name allocate; the others do not, unless they fail (oneDNN, which projections by weights of up to 768 KiB may
//     go through, makes small allocations of its own).
//   Text out: buffer gets as much as fits its capacity with a final zero byte, length (may be NULL) the bytes of the
//     whole text without that byte, so capacity length + 1 holds all of it. buffer may be NULL when capacity is 0. A
//     text that is cut is no error: length says so.
//   Errors: a status, and in the attend_error, which may be NULL, the message of the C++ exception. A required pointer
//     that is NULL is ATTEND_ERROR_INVALID. A call that fails changes no output and no handle, unless oneDNN fails:
//     attend_run and attend_prepare say what then. No exception leaves the library; it never prints, aborts or calls
//     exit. Only attend_version and the destroy functions, which cannot fail, return no status.
#ifndef ATTEND_ATTEND_C_H_
#define ATTEND_ATTEND_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum attend_status {
  ATTEND_OK = 0,
  ATTEND_ERROR_INVALID = 1,        // attend::Error in C++: an argument, threads that the system cannot start, oneDNN
  ATTEND_ERROR_OUT_OF_MEMORY = 2,  // std::bad_alloc in C++
  ATTEND_ERROR_INTERNAL = 3        // anything else; no such case is known
} attend_status;

// One line that names the argument, what it was and what was expected. Written on failure only; always ends in a zero
// byte. A longer message is cut at the last byte that fits, which may be inside a UTF-8 sequence.
typedef struct attend_error {
  char message[512];
} attend_error;

typedef struct attend_layer attend_layer;
typedef struct attend_plan attend_plan;
typedef struct attend_workspace attend_workspace;
typedef struct attend_prepared_keys attend_prepared_keys;
typedef struct attend_executor attend_executor;

// ---------------------------------------------------------------------------------------------------------- Tensors

enum { ATTEND_MAX_RANK = 4 };

// A view: pointer, sizes and strides in elements; owns nothing. Entries beyond rank are ignored. Zeroed: not given.
//   Strides that are all zero mean dense, row-major. Otherwise the innermost is 1, the others are free: negative, and
//   zero to repeat (one element repeated along every axis is what all zeros cannot say; write such data out). Those of
//   axes with one element or none are not looked at, and may be what other libraries make them.
//   Errors: a rank outside 0..ATTEND_MAX_RANK, a negative size or more elements than int64_t counts, naming the tensor.
typedef struct attend_tensor {
  const float* data;
  int32_t rank;
  int64_t sizes[ATTEND_MAX_RANK];
  int64_t strides[ATTEND_MAX_RANK];
} attend_tensor;

// The same for what is written, without repetition: all strides are zero (dense), or none is that is looked at, and
// rows do not overlap each other.
typedef struct attend_output_tensor {
  float* data;
  int32_t rank;
  int64_t sizes[ATTEND_MAX_RANK];
  int64_t strides[ATTEND_MAX_RANK];
} attend_output_tensor;

// The same for valid lengths: rank 1 (B) or 2 (B, M), any strides. Zeroed: every key is valid.
typedef struct attend_lengths {
  const int32_t* data;
  int32_t rank;
  int64_t sizes[ATTEND_MAX_RANK];
  int64_t strides[ATTEND_MAX_RANK];
} attend_lengths;

// ----------------------------------------------------------------------------------------------------------- Layers

// One tensor of a checkpoint, under its name there: "W_q.weight". Its strides are free, the innermost too.
typedef struct attend_parameter {
  const char* name;
  attend_tensor tensor;
} attend_parameter;

// How a multi-head layer scores within each head.
enum {
  ATTEND_SCORING_DOT = 0,      // scale * q_h . k_h
  ATTEND_SCORING_ADDITIVE = 1  // w_v[h] . tanh(q_h + k_h)
};

typedef struct attend_multi_head_options {
  int64_t num_heads;   // H; 0: 1
  int32_t scoring;     // one of ATTEND_SCORING_...
  const float* scale;  // NULL: 1 / sqrt(D) with D the size of a head; dot scoring only
  // Heads of keys and values, Hkv, a divisor of H: query head h sees those of head h / (H / Hkv), and W_k and W_v have
  // Hkv heads of rows. 0: num_heads. Dot scoring only.
  int64_t num_kv_heads;
} attend_multi_head_options;

// The layers of <attend/layers.h>. *layer gets a new handle.
//   parameters: num_parameters of them, in any order, with the names and shapes that the C++ layer recognises; names it
//     does not know are ignored. They are copied and packed: nothing passed in is needed afterwards.
//   Errors: also a missing, mis-shaped or twice named parameter, naming it; numbers of heads that do not fit the
//     parameters; a scale that is not finite, or not when multiplied by log2(e); a sigma that is not positive, or whose
//     1 / sigma^2 is no such scale or 0.

// score(q, k) = w_v . tanh(W_q q + W_k k).
//   W_q.weight (U, Dq), W_k.weight (U, Dk), w_v.weight (1, U) or (U); optional W_q.bias (U), W_k.bias (U).
//   Source: Bahdanau, Cho, Bengio 2015 (arXiv:1409.0473), section A.1.2.
attend_status attend_layer_create_additive(const attend_parameter* parameters, size_t num_parameters,
                                           attend_layer** layer, attend_error* error);

// score(q, k) = scale * q . k. scale: NULL for 1 / sqrt(D).
//   Source: Vaswani et al. 2017 (arXiv:1706.03762), equation 1.
attend_status attend_layer_create_dot(const float* scale, attend_layer** layer, attend_error* error);

// score(q, k) = scale * q^T W k. W.weight or W (Dq, Dk); scale: NULL for 1.
//   Source: Luong, Pham, Manning 2015 (arXiv:1508.04025), equation 8, "general".
attend_status attend_layer_create_bilinear(const float* scale, const attend_parameter* parameters,
                                           size_t num_parameters, attend_layer** layer, attend_error* error);

// score(q, k) = -|q - k|^2 / (2 sigma^2). sigma has no default here; C++ takes 1.
//   Source: Nadaraya 1964, Watson 1964.
attend_status attend_layer_create_gaussian(float sigma, attend_layer** layer, attend_error* error);

// Heads of dot or additive attention between projections. options: NULL for the defaults.
//   The names of the textbook (W_q.weight, W_k.weight, W_v.weight, W_o.weight, biases), of torch.nn.MultiheadAttention
//   (in_proj_weight or q_proj_weight ..., out_proj.weight, biases), of Hugging Face BERT (query.weight ...,
//   output.dense.weight, biases; also below self.) or of Hugging Face BART, OPT, CLIP and Whisper (q_proj.weight ...,
//   out_proj.weight, biases); additive scoring adds w_v.weight (H, D).
//   Errors: also what tells of a feature that this library does not have, as in C++: relative positions, rotary
//     embeddings (Llama's o_proj.weight, GPT-J's lack of biases), norms between projections, bias_k and bias_v.
//   Source: Vaswani et al. 2017, section 3.2.2.
attend_status attend_layer_create_multi_head(const attend_multi_head_options* options,
                                             const attend_parameter* parameters, size_t num_parameters,
                                             attend_layer** layer, attend_error* error);

void attend_layer_destroy(attend_layer* layer);

// ------------------------------------------------------------------------------------------------------------ Plans

// The largest problem a plan is to accept; a run may have fewer batch entries, queries or keys.
typedef struct attend_shape {
  int64_t batch;        // B; 0: 1
  int64_t num_queries;  // M, per batch entry; 0: 1
  int64_t num_keys;     // N, key-value pairs per batch entry; 0: 1
  // Elements per row. 0: what the layer's parameters say. dot and gaussian need query_size, and key_size 0 means that;
  // value_size 0 means key_size where no parameter knows it.
  int64_t query_size;  // Dq
  int64_t key_size;    // Dk
  int64_t value_size;  // Dv
  int64_t num_heads;   // H of views that are split already, (B, H, N, D): dot and gaussian only; 0: 1
  // Hkv of keys and values, (B, Hkv, N, D), a divisor of num_heads: query head h sees those of head h / (H / Hkv), in
  // place. 0: num_heads.
  int64_t num_kv_heads;
} attend_shape;

// What the caller knows of the lengths when planning; a run is held to it.
enum {
  ATTEND_VALID_LENS_ANY = 0,        // not known: a run may give none, (B) or (B, M)
  ATTEND_VALID_LENS_NONE = 1,       // never given: every key is valid
  ATTEND_VALID_LENS_PER_BATCH = 2,  // (B); also accepted: none
  ATTEND_VALID_LENS_PER_QUERY = 3   // (B, M); also accepted: none and (B)
};

// Which keys a query sees by its place, beside the valid lengths: the fewer of both counts. N is the number of keys of
// the run: the size of the keys, or attend_prepared_keys_num_keys.
enum {
  ATTEND_CAUSAL_NONE = 0,          // all
  ATTEND_CAUSAL_BOTTOM_RIGHT = 1,  // query i of M sees keys 0 to N - M + i; none where that is negative
  ATTEND_CAUSAL_TOP_LEFT = 2       // query i sees keys 0 to i
};

// What happens to queries beyond an entry's valid length, where the queries are as padded as the keys (self-attention).
enum {
  ATTEND_PADDING_COMPUTE = 0,      // they are queries like others
  ATTEND_PADDING_SKIP_QUERIES = 1  // query rows at or beyond valid_lens[b] are not computed: output and weights are 0;
                                   // valid_lens of a run are (B) or none
};

// How an additive score takes tanh(a + b) from the exponentials of a query's a and a key's b: how many terms share a
// division. From narrowest to widest.
enum {
  ATTEND_SCORE_TIER_BY_RANGE = 0,  // per query and panel of keys, the first that max|a| + max|b| allows
  ATTEND_SCORE_TIER_EIGHT = 1,     // up to about 10; a little more or less where weights w_v differ in size
  ATTEND_SCORE_TIER_FOUR = 2,      // up to about 15
  ATTEND_SCORE_TIER_THREE = 3,     // up to about 18: three, three and two of eight; first where a CPU divides fast
  ATTEND_SCORE_TIER_TWO = 4,       // up to about 24
  ATTEND_SCORE_TIER_ONE = 5,       // up to about 43
  ATTEND_SCORE_TIER_RATIONAL = 6   // any range: a rational tanh of every sum
};

// Products by pairs of terms: attend::Pairs in attend/plan.h.
enum {
  ATTEND_PAIRS_WHERE_FASTER = 0,  // by the planner's rules
  ATTEND_PAIRS_NEVER = 1,         // plain sums
  ATTEND_PAIRS_ALWAYS = 2         // scores and pooling wherever there are tiles: for tests
};

// Products by bfloat16 parts: attend::Parts in attend/plan.h.
enum {
  ATTEND_PARTS_WHERE_FASTER = 0,  // by the planner's rules, on CPUs with AMX
  ATTEND_PARTS_NEVER = 1,         // as on CPUs without
  ATTEND_PARTS_ALWAYS = 2         // scores and pooling wherever there are tiles: for tests
};

typedef struct attend_plan_options {
  int32_t threads;            // the most tasks a run may use at once; 0: 1. Never changes a result
  int32_t attention_weights;  // boolean: runs will ask for them
  int32_t concat_queries;     // boolean: each output row is [context; query]
  int32_t valid_lens;         // one of ATTEND_VALID_LENS_...
  int32_t causal;             // one of ATTEND_CAUSAL_...
  int32_t padding;            // one of ATTEND_PADDING_...
  const char* target;         // instruction set by name, as attend_target_name gives it; NULL or "": the best
  const char* path;           // a candidate of the explanation, such as "dot/fused"; NULL or "": the rules choose
  int32_t prepared_keys;      // boolean: every run will be given prepared keys; the workspace then holds none
  // Path additive/factored only.
  int32_t score_tier;   // one of ATTEND_SCORE_TIER_..., for every tile; for tests: wrong where ranges exceed it
  int32_t count_tiers;  // boolean: runs count their tiles, for attend_plan_tier_counts and attend_plan_explain_run
  int32_t pairs;        // one of ATTEND_PAIRS_...; any path
  int32_t parts;        // one of ATTEND_PARTS_...; any path
} attend_plan_options;

// Checks the shape against the layer's parameters, chooses path, tiles and workspace. options: NULL for the defaults.
//   Errors: also an unknown target or path, listing those there are, and any size or option that does not fit.
attend_status attend_plan_create(const attend_layer* layer, const attend_shape* shape,
                                 const attend_plan_options* options, attend_plan** plan, attend_error* error);

// Text out: path, tiles, target, workspace, estimated work and the reason of every choice, some lines.
attend_status attend_plan_explain(const attend_plan* plan, char* buffer, size_t capacity, size_t* length,
                                  attend_error* error);

// Text out: the same and a line with the tiles per score tier of the last run that used workspace. What it counts is
// not specified before there was one.
//   Thread-safety: not while workspace is in use.
//   Errors: also a plan made without count_tiers, a workspace that is too small for the plan.
attend_status attend_plan_explain_run(const attend_plan* plan, const attend_workspace* workspace, char* buffer,
                                      size_t capacity, size_t* length, attend_error* error);

// Tiles, one query by one panel of keys, that a run scored by each tier.
typedef struct attend_tier_counts {
  uint64_t eight;
  uint64_t four;
  uint64_t three;
  uint64_t two;
  uint64_t one;
  uint64_t rational;
} attend_tier_counts;

// Those counts.
//   Thread-safety, errors: as attend_plan_explain_run.
attend_status attend_plan_tier_counts(const attend_plan* plan, const attend_workspace* workspace,
                                      attend_tier_counts* counts, attend_error* error);

// Text out: the chosen path, such as "dot/fused".
attend_status attend_plan_path(const attend_plan* plan, char* buffer, size_t capacity, size_t* length,
                               attend_error* error);

// How many paths fit the problem; at least 1.
attend_status attend_plan_candidate_count(const attend_plan* plan, size_t* count, attend_error* error);

// Text out: one of them, as attend_plan_options takes it; index 0 is the one that the rules prefer.
//   Errors: also an index beyond the last.
attend_status attend_plan_candidate_name(const attend_plan* plan, size_t index, char* buffer, size_t capacity,
                                         size_t* length, attend_error* error);

// Text out: the instruction set the kernels run on, such as "AVX3".
attend_status attend_plan_target_name(const attend_plan* plan, char* buffer, size_t capacity, size_t* length,
                                      attend_error* error);

// The largest problem accepted, with every size filled in. Of a multi-head layer, num_heads and num_kv_heads are 1, as
// of all views without an axis of heads.
attend_status attend_plan_shape(const attend_plan* plan, attend_shape* shape, attend_error* error);

// The most tasks a run may use at once, as planned.
attend_status attend_plan_threads(const attend_plan* plan, int32_t* threads, attend_error* error);

// Bytes a workspace for this plan holds.
attend_status attend_plan_workspace_bytes(const attend_plan* plan, size_t* bytes, attend_error* error);

// Bytes that prepared keys for this plan take.
attend_status attend_plan_prepared_bytes(const attend_plan* plan, size_t* bytes, attend_error* error);

// Elements of one output row: value_size, or the rows of W_o; + query_size with concat_queries. The output of a run is
// (B, M, output_size), or (B, num_heads, M, output_size) where its views have an axis of heads.
attend_status attend_plan_output_size(const attend_plan* plan, int64_t* output_size, attend_error* error);

// Heads that the attention weights of a run are given for, (B, weight_heads, M, N); 0 when they are (B, M, N). (Where
// the shape's num_heads is 1, views of a run with an axis of one head have weights (B, 1, M, N).)
attend_status attend_plan_weight_heads(const attend_plan* plan, int64_t* weight_heads, attend_error* error);

void attend_plan_destroy(attend_plan* plan);

// ------------------------------------------------------------------------------------------------------- Workspaces

// Scratch memory for one run, prepare or append at a time, of this plan or of any that needs no more bytes.
attend_status attend_workspace_create(const attend_plan* plan, attend_workspace** workspace, attend_error* error);

// The same over the caller's memory, which outlives it: bytes at memory, of any alignment. Up to 64 bytes at its start
// may be skipped, so attend_plan_workspace_bytes + 64 always serve. Only the handle is allocated.
attend_status attend_workspace_create_in(void* memory, size_t bytes, attend_workspace** workspace, attend_error* error);

void attend_workspace_destroy(attend_workspace* workspace);

// -------------------------------------------------------------------------------------------------------- Executors

// The built-in pool. threads: how many work at once, the caller included; 0: as many as there are CPUs that this
// process may use, by its affinity and its container's quota.
//   Starts threads - 1 threads, which sleep when there has been nothing to do for 100 us and end with the executor.
//   Several runs may use it at once; their loops take turns.
//   Errors: also a negative number, and more threads than the system can start.
attend_status attend_executor_create(int32_t threads, attend_executor** executor, attend_error* error);

// The caller's own parallel-for. Neither callback throws, jumps out or calls back into the executor.
typedef struct attend_executor_callbacks {
  // Passed to both; lives as long as the executor.
  void* context;
  // How many tasks can run at the same time; less than 1 counts as 1.
  int (*concurrency)(void* context);
  // Calls task(task_context, 0) ... task(task_context, num_tasks - 1), each once, in any order, on any threads, and
  // returns when all have returned; what the tasks wrote is then visible to the caller. Running them one after another
  // is correct. Called from every thread that runs a plan with this executor, at the same time if they do.
  void (*parallel_for)(void* context, size_t num_tasks, void (*task)(void* task_context, size_t index),
                       void* task_context);
  // Seconds of work, by a rough estimate, that make another thread worth its part of a loop: loops of less take fewer,
  // and the least ones the calling thread alone. 0: 2.5e-6, the built-in pool's; negative: loops always take all.
  double least_seconds;
} attend_executor_callbacks;

// An executor over callbacks, which are copied; both functions are required.
// Errors: also a least_seconds that is NaN.
attend_status attend_executor_create_from_callbacks(const attend_executor_callbacks* callbacks,
                                                    attend_executor** executor, attend_error* error);

// How many tasks can run at the same time, at least 1: the threads to plan for, where create was given 0.
attend_status attend_executor_concurrency(const attend_executor* executor, int32_t* concurrency, attend_error* error);

void attend_executor_destroy(attend_executor* executor);

// ------------------------------------------------------------------------------------------------------------- Runs

// What a run reads. keys not given: the queries. values not given: the keys.
//   prepared: instead of keys and values, which are then not given. valid_lens then counts prepared keys, at most those
//     that the entry has; not given: all of them.
typedef struct attend_inputs {
  attend_tensor queries;                 // (B, M, Dq), or (B, H, M, D) where the shape gave num_heads
  attend_tensor keys;                    // (B, N, Dk), or (B, Hkv, N, D)
  attend_tensor values;                  // (B, N, Dv), or (B, Hkv, N, Dv)
  attend_lengths valid_lens;             // (B) or (B, M), 0 <= len <= N; not given: all N keys are valid
  const attend_prepared_keys* prepared;  // made for the plan of the run; NULL: not given
} attend_inputs;

// What a run writes.
typedef struct attend_outputs {
  attend_output_tensor output;             // (B, M, output_size), or (B, H, M, output_size)
  attend_output_tensor attention_weights;  // not given, or (B, M, N); (B, H, M, N) where there are heads
} attend_outputs;

// output = softmax(score(queries, keys)) values, row by row over each row's valid keys: attend::Plan::run.
//   Each of B, M, N at most what was planned for. Inputs may overlap each other. No alignment is asked for.
//   A row without valid keys gives output and weights 0; keys and values that no row sees are never read, nor are
//     queries that are skipped.
//   executor: NULL for the calling thread alone. The same bits for every executor and number of threads.
//   Allocates nothing, locks nothing (the executor may).
//   Errors: every mismatch of shapes, strides, lengths or workspace size, before any output changes; prepared keys of
//     another plan, none in them, or none given where the plan has prepared_keys. Also where oneDNN fails in a
//     projection, for want of memory above all: outputs may have changed then.
attend_status attend_run(const attend_plan* plan, const attend_inputs* inputs, const attend_outputs* outputs,
                         attend_workspace* workspace, attend_executor* executor, attend_error* error);

typedef struct attend_masked_softmax_options {
  const char* target;         // NULL or "": the best
  attend_executor* executor;  // NULL: the calling thread alone
} attend_masked_softmax_options;

// output[b, m, j] = exp(input[b, m, j]) / sum over valid j' of exp(input[b, m, j'])  for j < len, else 0.
//   input and output (B, M, N) or (B, H, M, N); valid_lens (B) or (B, M), NULL or zeroed: all valid.
//   options: NULL for the defaults.
//   Aliasing: output may be input itself, same data and strides.
//   Allocation: a few bytes where options name a target.
//   Errors: also an unknown target.
//   Source: Dive into Deep Learning, 11.3.1.
attend_status attend_masked_softmax(const attend_tensor* input, const attend_lengths* valid_lens,
                                    const attend_output_tensor* output, const attend_masked_softmax_options* options,
                                    attend_error* error);

// ---------------------------------------------------------------------------------------------------- Prepared keys
//
// Keys and values as a plan's kernels want them, for many runs: the encoder's output of a decoder, the training points
// of a kernel regression (error handling left out):
//     attend_prepared_keys* prepared = NULL;
//     attend_prepared_keys_create(plan, &prepared, NULL);
//     attend_key_inputs encoded = {.keys = {.data = k, .rank = 3, .sizes = {2, 10, 16}}};
//     attend_prepare(plan, &encoded, prepared, workspace, NULL, NULL);
//     attend_inputs step = {.queries = {.data = q, .rank = 3, .sizes = {2, 1, 16}}, .prepared = prepared};
//     attend_run(plan, &step, &outputs, workspace, NULL, NULL);  // as often as there are queries

// Room for the batch and the number of keys that the plan was made for, so that keys may be appended. Empty at first:
// attend_prepare comes before attend_append and before any run.
attend_status attend_prepared_keys_create(const attend_plan* plan, attend_prepared_keys** prepared,
                                          attend_error* error);

// The same over the caller's memory, which outlives it: bytes at memory, of any alignment. Up to 64 bytes at its start
// may be skipped, so attend_plan_prepared_bytes + 64 always serve. Only the handle is allocated.
//   Errors: also memory that is smaller than attend_plan_prepared_bytes from its first multiple of 64 on.
attend_status attend_prepared_keys_create_in(const attend_plan* plan, void* memory, size_t bytes,
                                             attend_prepared_keys** prepared, attend_error* error);

// What is prepared, or added to what is. values not given: the keys.
typedef struct attend_key_inputs {
  attend_tensor keys;    // (B, N, Dk), or (B, Hkv, N, D) where the shape gave num_heads
  attend_tensor values;  // (B, N, Dv), or (B, Hkv, N, Dv)
  // (B), or (B, M) of which the longest per entry counts; not given: all N. Keys beyond are neither read nor kept.
  attend_lengths valid_lens;
} attend_key_inputs;

// Does what a run does to keys and values before it meets a query, once for many runs: attend::Plan::prepare. Replaces
// what prepared held; a run on it gives the bits that a run on the same keys and values gives.
//   Each of B, N at most what was planned for. The inputs are not needed afterwards.
//   prepared: made for this plan. No run, prepare or append may use it meanwhile.
//   executor: NULL for the calling thread alone. The same bits for every executor and number of threads.
//   Allocates nothing, locks nothing (the executor may).
//   Errors: every mismatch of shapes, strides, lengths or workspace size, and prepared keys of another plan, before
//     anything changes. If oneDNN fails, prepared is left empty.
attend_status attend_prepare(const attend_plan* plan, const attend_key_inputs* inputs, attend_prepared_keys* prepared,
                             attend_workspace* workspace, attend_executor* executor, attend_error* error);

// Adds keys and values behind those that each batch entry has: what a decoder does with its own last token. A run then
// gives the bits of keys and values that were concatenated, entry by entry, valid ones only. attend_prepare comes
// first: it says how many batch entries there are.
//   Shapes, prepared, executor, allocation: as attend_prepare.
//   Errors: as attend_prepare; also prepared that holds nothing, another number of batch entries than were prepared, or
//     more keys than there is room for.
attend_status attend_append(const attend_plan* plan, const attend_key_inputs* inputs, attend_prepared_keys* prepared,
                            attend_workspace* workspace, attend_executor* executor, attend_error* error);

// Batch entries; 0 until something is prepared.
attend_status attend_prepared_keys_batch(const attend_prepared_keys* prepared, int64_t* batch, attend_error* error);

// N: the sizes of the keys prepared and appended, added up. What attention weights of a run have as columns.
attend_status attend_prepared_keys_num_keys(const attend_prepared_keys* prepared, int64_t* num_keys,
                                            attend_error* error);

// Keys of batch entry index, the valid ones of those; 0 for an entry that there is not.
attend_status attend_prepared_keys_len(const attend_prepared_keys* prepared, int64_t index, int64_t* len,
                                       attend_error* error);

void attend_prepared_keys_destroy(attend_prepared_keys* prepared);

// ---------------------------------------------------------------------------------------------------------- Targets

// How many instruction sets this build holds kernels for and this CPU can run; at least 1.
attend_status attend_target_count(size_t* count, attend_error* error);

// Text out: the name of one of them, such as "AVX3"; index 0 is the best.
//   Errors: also an index beyond the last.
attend_status attend_target_name(size_t index, char* buffer, size_t capacity, size_t* length, attend_error* error);

// ---------------------------------------------------------------------------------------------------------- Version

// "MAJOR.MINOR.PATCH" of the library that is linked. Nobody's to free; valid as long as the library is loaded. That of
// the headers is in the macros of <attend/version.h>.
const char* attend_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // ATTEND_ATTEND_C_H_
