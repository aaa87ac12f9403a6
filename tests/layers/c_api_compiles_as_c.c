// The C API seen by a C99 compiler: -std=c99 -pedantic -Wall -Wextra -Werror. Called by c_api_runs_test.cc and
// c_api_prepared_test.cc.
#include "attend/attend_c.h"

attend_status attend_test_dot_from_c(const float* queries, const float* keys, const float* values,
                                     const int32_t* valid_lens, float* output, attend_error* error);
int attend_test_status_from_c(attend_error* error);
attend_status attend_test_prepared_from_c(const float* queries, const float* keys, const float* values,
                                          const int32_t* valid_lens, float* output, int64_t* sizes,
                                          attend_error* error);

// queries (2, 1, 4), keys (2, 5, 4), values (2, 5, 3), valid_lens (2), output (2, 1, 3).
attend_status attend_test_dot_from_c(const float* queries, const float* keys, const float* values,
                                     const int32_t* valid_lens, float* output, attend_error* error) {
  const attend_shape shape = {.batch = 2, .num_queries = 1, .num_keys = 5, .query_size = 4, .value_size = 3};
  const attend_inputs inputs = {.queries = {queries, 3, {2, 1, 4}, {0}},
                                .keys = {keys, 3, {2, 5, 4}, {20, 4, 1}},
                                .values = {.data = values, .rank = 3, .sizes = {2, 5, 3}},
                                .valid_lens = {.data = valid_lens, .rank = 1, .sizes = {2}}};
  const attend_outputs outputs = {.output = {.data = output, .rank = 3, .sizes = {2, 1, 3}}};
  attend_layer* layer = NULL;
  attend_plan* plan = NULL;
  attend_workspace* workspace = NULL;
  attend_executor* executor = NULL;
  attend_status status = attend_layer_create_dot(NULL, &layer, error);
  if (status == ATTEND_OK) status = attend_plan_create(layer, &shape, NULL, &plan, error);
  if (status == ATTEND_OK) status = attend_workspace_create(plan, &workspace, error);
  if (status == ATTEND_OK) status = attend_executor_create(1, &executor, error);
  if (status == ATTEND_OK) status = attend_run(plan, &inputs, &outputs, workspace, executor, error);
  attend_executor_destroy(executor);
  attend_workspace_destroy(workspace);
  attend_plan_destroy(plan);
  attend_layer_destroy(layer);
  return status;
}

// A failure and its message, as C sees them.
int attend_test_status_from_c(attend_error* error) {
  attend_layer* layer = NULL;
  const attend_status status = attend_layer_create_gaussian(0.0f, &layer, error);
  return status == ATTEND_ERROR_INVALID && layer == NULL && error->message[0] != '\0';
}

// The same sizes: the first three keys prepared, at most valid_lens of them, the other two appended.
// sizes: batch, number of keys and the keys of entry 1, as the prepared keys have them in the end.
attend_status attend_test_prepared_from_c(const float* queries, const float* keys, const float* values,
                                          const int32_t* valid_lens, float* output, int64_t* sizes,
                                          attend_error* error) {
  const attend_shape shape = {.batch = 2, .num_queries = 1, .num_keys = 5, .query_size = 4, .value_size = 3};
  const attend_plan_options options = {.causal = ATTEND_CAUSAL_BOTTOM_RIGHT,  // one query: sees all keys
                                       .padding = ATTEND_PADDING_COMPUTE,
                                       .prepared_keys = 1,
                                       .score_tier = ATTEND_SCORE_TIER_BY_RANGE};
  const attend_key_inputs first = {.keys = {keys, 3, {2, 3, 4}, {20, 4, 1}},
                                   .values = {values, 3, {2, 3, 3}, {15, 3, 1}},
                                   .valid_lens = {.data = valid_lens, .rank = 1, .sizes = {2}}};
  const attend_key_inputs second = {.keys = {keys + 12, 3, {2, 2, 4}, {20, 4, 1}},
                                    .values = {values + 9, 3, {2, 2, 3}, {15, 3, 1}}};
  const attend_outputs outputs = {.output = {.data = output, .rank = 3, .sizes = {2, 1, 3}}};
  attend_inputs inputs = {.queries = {.data = queries, .rank = 3, .sizes = {2, 1, 4}}};
  attend_layer* layer = NULL;
  attend_plan* plan = NULL;
  attend_workspace* workspace = NULL;
  attend_prepared_keys* prepared = NULL;
  attend_status status = attend_layer_create_dot(NULL, &layer, error);
  if (status == ATTEND_OK) status = attend_plan_create(layer, &shape, &options, &plan, error);
  if (status == ATTEND_OK) status = attend_workspace_create(plan, &workspace, error);
  if (status == ATTEND_OK) status = attend_prepared_keys_create(plan, &prepared, error);
  if (status == ATTEND_OK) status = attend_prepare(plan, &first, prepared, workspace, NULL, error);
  if (status == ATTEND_OK) status = attend_append(plan, &second, prepared, workspace, NULL, error);
  if (status == ATTEND_OK) status = attend_prepared_keys_batch(prepared, &sizes[0], error);
  if (status == ATTEND_OK) status = attend_prepared_keys_num_keys(prepared, &sizes[1], error);
  if (status == ATTEND_OK) status = attend_prepared_keys_len(prepared, 1, &sizes[2], error);
  inputs.prepared = prepared;
  if (status == ATTEND_OK) status = attend_run(plan, &inputs, &outputs, workspace, NULL, error);
  attend_prepared_keys_destroy(prepared);
  attend_workspace_destroy(workspace);
  attend_plan_destroy(plan);
  attend_layer_destroy(layer);
  return status;
}
