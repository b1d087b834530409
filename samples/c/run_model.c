/* Runs a model from C: loads it, tells what it takes, compiles it for some sizes, runs it on memory of this program
 * without copying it, looks at results and errors.
 *
 *   run_model MODEL [WEIGHTS]     with one input, 1x1x32x32 of float32; samples/models/lenet_scripted is such a model
 */
#include <math.h>
#include <stdio.h>
#include <tscompile.h>

static int failed(tscompile_error* error) {
  fprintf(stderr, "%s\n", tscompile_error_text(error));
  int status = (int)tscompile_error_status(error);
  tscompile_error_free(error);
  return status;
}

static void released(void* context) { *(int*)context += 1; }

/* The class with the highest score, or -1. */
static int best(const tscompile_value* scores) {
  tscompile_tensor t = {.size = sizeof t};
  if (!tscompile_value_get_tensor(scores, &t) || t.dtype != TSCOMPILE_FLOAT32 || t.rank != 2) return -1;
  const float* y = t.data;
  int at = 0;
  for (int i = 1; i < t.sizes[1]; ++i)
    if (y[i * t.strides[1]] > y[at * t.strides[1]]) at = i;
  return at;
}

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: run_model MODEL [WEIGHTS]\n");
    return TSCOMPILE_USAGE;
  }
  tscompile_error* error = NULL;

  const char* weights[] = {argc == 3 ? argv[2] : NULL};
  tscompile_load_options load = {.size = sizeof load, .weights = weights, .weight_count = argc == 3};
  tscompile_module* module;
  if (tscompile_load(argv[1], &load, &module, &error)) return failed(error);

  const char* sizes[] = {"1..4x1x32x32:f32"};
  tscompile_compile_options options = {.size = sizeof options, .inputs = sizes, .input_count = 1};
  tscompile_module* compiled;
  if (tscompile_module_compile(module, &options, &compiled, &error)) return failed(error);
  tscompile_method* forward;
  if (tscompile_module_prepare(compiled, NULL, &forward, &error)) return failed(error);

  for (size_t i = 0; i < tscompile_method_input_count(forward); ++i) {
    tscompile_value_info info = {.size = sizeof info};
    tscompile_method_input(forward, i, &info);
    printf("input %zu : %s\n", i, info.type);
  }

  /* The image stays where it is: the value borrows it. Every second column of a wider picture, to show strides. */
  static float picture[32][64];
  for (int r = 0; r < 32; ++r)
    for (int c = 0; c < 32; ++c) picture[r][2 * c] = sinf(0.1f * (float)(r * 32 + c));
  int releases = 0;
  int64_t image_sizes[] = {1, 1, 32, 32}, image_strides[] = {2048, 2048, 64, 2};
  tscompile_tensor image = {.size = sizeof image,
                            .dtype = TSCOMPILE_FLOAT32,
                            .rank = 4,
                            .sizes = image_sizes,
                            .strides = image_strides,
                            .data = picture,
                            .read_only = 1};
  tscompile_value* x;
  if (tscompile_value_tensor(&image, released, &releases, &x, &error)) return failed(error);

  const tscompile_value* inputs[] = {x};
  tscompile_value* scores;
  tscompile_run_options run = {.size = sizeof run, .threads = 1};
  if (tscompile_method_run(forward, inputs, 1, &run, &scores, 1, &error)) return failed(error);
  printf("class %d\n", best(scores));

  /* Engines and the interpreter agree. */
  tscompile_method* reference;
  if (tscompile_module_prepare(module, "forward", &reference, &error)) return failed(error);
  tscompile_value* expected;
  if (tscompile_method_run(reference, inputs, 1, NULL, &expected, 1, &error)) return failed(error);
  float got[10], want[10];
  if (tscompile_value_copy_elements(scores, got, sizeof got, &error)) return failed(error);
  if (tscompile_value_copy_elements(expected, want, sizeof want, &error)) return failed(error);
  float most = 0;
  for (int i = 0; i < 10; ++i) most = fmaxf(most, fabsf(got[i] - want[i]));
  printf("engines and the interpreter %s\n", most < 1e-5f ? "agree" : "differ");

  /* What is wrong is told with its place, and can be looked at in parts. */
  image_sizes[2] = 16;
  tscompile_value* half;
  if (tscompile_value_tensor_copy(&image, &half, &error)) return failed(error);
  const tscompile_value* wrong[] = {half};
  tscompile_value* none;
  tscompile_status status = tscompile_method_run(forward, wrong, 1, NULL, &none, 1, &error);
  tscompile_problem problem = {.size = sizeof problem};
  tscompile_error_problem(error, 0, &problem);
  printf("16 rows: status %d, %s\n", status, problem.message);
  tscompile_error_free(error);
  error = NULL;

  char* json;
  if (tscompile_module_partition(module, &options, &json, &error)) return failed(error);
  printf("partition: %.33s\n", json);
  tscompile_string_free(json);

  tscompile_value_free(half);
  tscompile_value_free(scores);
  tscompile_value_free(expected);
  tscompile_method_free(forward);
  tscompile_method_free(reference);
  tscompile_module_free(compiled);
  tscompile_module_free(module);
  tscompile_value_free(x);
  printf("the picture was released %s\n", releases == 1 ? "once" : "otherwise");
  return releases == 1 ? 0 : 1;
}
