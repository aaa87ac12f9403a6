// Runs the textbook's example through the C API: identical keys, lengths 2 and 6 over the values 0 ... 39.
#include <attend/attend_c.h>
#include <attend/version.h>
#include <stdio.h>

int main(void) {
  float queries[4], keys[40], values[80], output[8];
  for (int i = 0; i < 4; ++i) queries[i] = 0.5f;
  for (int i = 0; i < 40; ++i) keys[i] = 1.0f;
  for (int i = 0; i < 80; ++i) values[i] = (float)(i % 40);
  const int32_t lens[] = {2, 6};

  const attend_shape shape = {.batch = 2, .num_queries = 1, .num_keys = 10, .query_size = 2, .value_size = 4};
  const attend_inputs inputs = {.queries = {.data = queries, .rank = 3, .sizes = {2, 1, 2}},
                                .keys = {.data = keys, .rank = 3, .sizes = {2, 10, 2}},
                                .values = {.data = values, .rank = 3, .sizes = {2, 10, 4}},
                                .valid_lens = {.data = lens, .rank = 1, .sizes = {2}}};
  const attend_outputs outputs = {.output = {.data = output, .rank = 3, .sizes = {2, 1, 4}}};
  attend_layer* layer = NULL;
  attend_plan* plan = NULL;
  attend_workspace* workspace = NULL;
  attend_error error;
  attend_status status = attend_layer_create_dot(NULL, &layer, &error);
  if (status == ATTEND_OK) status = attend_plan_create(layer, &shape, NULL, &plan, &error);
  if (status == ATTEND_OK) status = attend_workspace_create(plan, &workspace, &error);
  if (status == ATTEND_OK) status = attend_run(plan, &inputs, &outputs, workspace, NULL, &error);
  attend_workspace_destroy(workspace);
  attend_plan_destroy(plan);
  attend_layer_destroy(layer);
  if (status != ATTEND_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }

  const float expected[] = {2, 3, 4, 5, 10, 11, 12, 13};
  for (int i = 0; i < 8; ++i) {
    printf("%g ", (double)output[i]);
    const float difference = output[i] - expected[i];
    if (difference < -2e-6f || difference > 2e-6f) return 1;
  }
  printf("by C, headers of attend %s\n", ATTEND_VERSION_STRING);
  return 0;
}
