/* The C interface: load a model, compile it, run it, ask about it. Plain C11, for programs in C and for bindings of
 * other languages; docs/c.md is the guide.
 *
 * - Handles are opaque. Whatever a function returns or writes to an out parameter as a handle or as `char*` belongs to
 *   the caller, who frees it with the function of its type; NULL may be freed. Everything `const char*`, and what the
 *   structs point to, belongs to the handle that was asked and lives as long as it.
 * - Functions that can fail return a tscompile_status and take a tscompile_error** as their last parameter, which may
 *   be NULL. On failure it gets an error, and out parameters get NULL; on success it is left alone. NULL where a handle
 *   is needed is a failure (TSCOMPILE_USAGE), not a crash. No C++ exception leaves a function.
 * - The ABI is stable: functions are only added, and structs only grow at the end. The caller sets `size` of a struct
 *   to its sizeof; fields that it does not have are taken as zero, and those that it has are filled.
 * - Threads: a module is for one thread at a time. A method may be run by any number of threads at once, and so may
 *   values be read and shared. An interrupt may be set from any thread and from a handler of signals.
 * - Sizes and strides count elements, strides may be 0 or negative. Texts are UTF-8. */
#ifndef TSCOMPILE_C_H
#define TSCOMPILE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSCOMPILE_API __attribute__((visibility("default")))

/* Grows with each addition. */
#define TSCOMPILE_C_VERSION 7
/* The TSCOMPILE_C_VERSION of the library that is loaded, and the version of tscompile ("0.1.0"). */
TSCOMPILE_API uint32_t tscompile_c_version(void);
TSCOMPILE_API const char* tscompile_version(void);

/* ---- errors ---- */

/* The exit codes of the command line tool (docs/diagnostics.md). */
typedef enum tscompile_status {
  TSCOMPILE_OK = 0,
  TSCOMPILE_USAGE = 2,        /* the call is at fault: NULL, a range that cannot be read, an unknown setting */
  TSCOMPILE_INPUT = 3,        /* the text, the weights, or an input of a run is wrong: none, or of another type */
  TSCOMPILE_UNSUPPORTED = 4,  /* an operator or feature that tscompile does not have */
  TSCOMPILE_IO = 5,           /* a file cannot be read or written */
  TSCOMPILE_LIMIT = 6,        /* a limit was reached, or there is no memory */
  TSCOMPILE_INCOMPATIBLE = 7, /* an engine file of another version, or for another processor */
  TSCOMPILE_MODEL = 8,        /* the model failed while it ran, or a tensor has another dtype, rank or size than it was
                                 compiled or exported for */
  TSCOMPILE_INTERNAL = 70,    /* our fault */
  TSCOMPILE_INTERRUPTED = 130
} tscompile_status;

typedef struct tscompile_error tscompile_error;

/* Where and what. */
typedef struct tscompile_problem {
  size_t size;
  tscompile_status status; /* TSCOMPILE_OK: a warning */
  const char* message;     /* one sentence */
  const char* file;        /* NULL: no place is known */
  uint32_t line, column;   /* from 1, in bytes; 0: a file without lines */
  uint32_t end_line, end_column;
  const char* notes; /* what may help, one a line; may be empty */
} tscompile_problem;

TSCOMPILE_API tscompile_status tscompile_error_status(const tscompile_error* error);
/* As the command line tool prints it: "model.ir:2:17: error: ...", the line with a caret, notes. */
TSCOMPILE_API const char* tscompile_error_text(const tscompile_error* error);
TSCOMPILE_API size_t tscompile_error_count(const tscompile_error* error);
/* False if there is no such problem. */
TSCOMPILE_API int tscompile_error_problem(const tscompile_error* error, size_t index, tscompile_problem* out);
TSCOMPILE_API void tscompile_error_free(tscompile_error* error);

TSCOMPILE_API void tscompile_string_free(char* text);

/* ---- values ---- */

typedef struct tscompile_value tscompile_value;

typedef enum tscompile_kind {
  TSCOMPILE_NONE,
  TSCOMPILE_BOOL,
  TSCOMPILE_INT,
  TSCOMPILE_FLOAT,
  TSCOMPILE_COMPLEX,
  TSCOMPILE_STRING,
  TSCOMPILE_TENSOR,
  TSCOMPILE_LIST,
  TSCOMPILE_TUPLE,
  TSCOMPILE_DICT,
  TSCOMPILE_OTHER /* devices, objects, enumerations: only their text can be had */
} tscompile_kind;

/* PyTorch's numbers. */
typedef enum tscompile_dtype {
  TSCOMPILE_UINT8 = 0,
  TSCOMPILE_INT8 = 1,
  TSCOMPILE_INT16 = 2,
  TSCOMPILE_INT32 = 3,
  TSCOMPILE_INT64 = 4,
  TSCOMPILE_FLOAT16 = 5,
  TSCOMPILE_FLOAT32 = 6,
  TSCOMPILE_FLOAT64 = 7,
  TSCOMPILE_COMPLEX64 = 9,
  TSCOMPILE_COMPLEX128 = 10,
  TSCOMPILE_BOOLEAN = 11,
  TSCOMPILE_BFLOAT16 = 15,
  TSCOMPILE_UNKNOWN_DTYPE = -1,
  TSCOMPILE_DTYPE_RANGE = 0x7fffffff /* no dtype: with it, any number that a caller writes is a value of the type */
} tscompile_dtype;

typedef struct tscompile_tensor {
  size_t size;
  tscompile_dtype dtype;
  int32_t rank;
  const int64_t* sizes;
  const int64_t* strides; /* NULL for tscompile_value_tensor: row-major */
  void* data;             /* the element whose indices are all 0 */
  int read_only;          /* runs must not, or the caller must not write to it */
} tscompile_tensor;

/* Called with `context` when nothing needs the memory any more, possibly from another thread. */
typedef void (*tscompile_release)(void* context);

/* A tensor over memory of the caller, which is not copied and must stay until `release` is called. Results of a run may
 * be views of its inputs, so it may be needed longer than the handle. `release` may be NULL for memory that outlives
 * all of it; it is not called if this function fails. A model that writes to an input writes there. */
TSCOMPILE_API tscompile_status tscompile_value_tensor(const tscompile_tensor* tensor, tscompile_release release,
                                                      void* context, tscompile_value** out, tscompile_error** error);
/* The same with a copy of the elements. */
TSCOMPILE_API tscompile_status tscompile_value_tensor_copy(const tscompile_tensor* tensor, tscompile_value** out,
                                                           tscompile_error** error);
/* These return NULL only if there is no memory. */
TSCOMPILE_API tscompile_value* tscompile_value_none(void);
TSCOMPILE_API tscompile_value* tscompile_value_bool(int value);
TSCOMPILE_API tscompile_value* tscompile_value_int(int64_t value);
TSCOMPILE_API tscompile_value* tscompile_value_float(double value);
TSCOMPILE_API tscompile_value* tscompile_value_complex(double real, double imaginary);
TSCOMPILE_API tscompile_value* tscompile_value_string(const char* bytes, size_t count);
/* Containers of values that stay the caller's. What their items are to be is said by the input of the model that they
 * are given to: a list of ints can be one of floats, and a tuple may stand for a list. */
TSCOMPILE_API tscompile_status tscompile_value_list(tscompile_value* const* items, size_t count, tscompile_value** out,
                                                    tscompile_error** error);
TSCOMPILE_API tscompile_status tscompile_value_tuple(tscompile_value* const* items, size_t count, tscompile_value** out,
                                                     tscompile_error** error);
TSCOMPILE_API tscompile_status tscompile_value_dict(tscompile_value* const* keys, tscompile_value* const* values,
                                                    size_t count, tscompile_value** out, tscompile_error** error);
/* From the notation of the command line (docs/values.md): "[1, 2]", "@x.npy", "1x3x8x8:f32:randn(seed=0)". */
TSCOMPILE_API tscompile_status tscompile_value_parse(const char* text, tscompile_value** out, tscompile_error** error);
/* Another handle of the same value. */
TSCOMPILE_API tscompile_value* tscompile_value_share(const tscompile_value* value);
TSCOMPILE_API void tscompile_value_free(tscompile_value* value);

TSCOMPILE_API tscompile_kind tscompile_value_kind(const tscompile_value* value);
/* Whether the value is of this kind; then it is written to `out`. An int is a float as well. */
TSCOMPILE_API int tscompile_value_get_bool(const tscompile_value* value, int* out);
TSCOMPILE_API int tscompile_value_get_int(const tscompile_value* value, int64_t* out);
TSCOMPILE_API int tscompile_value_get_float(const tscompile_value* value, double* out);
TSCOMPILE_API int tscompile_value_get_complex(const tscompile_value* value, double* real, double* imaginary);
/* Ends with a zero byte that is not counted. */
TSCOMPILE_API int tscompile_value_get_string(const tscompile_value* value, const char** bytes, size_t* count);
/* The elements where they lie. An undefined tensor is none. */
TSCOMPILE_API int tscompile_value_get_tensor(const tscompile_value* value, tscompile_tensor* out);
/* Copies a tensor's elements in row-major order. `bytes` is what there is room for. */
TSCOMPILE_API tscompile_status tscompile_value_copy_elements(const tscompile_value* value, void* to, size_t bytes,
                                                             tscompile_error** error);
/* Items of a list, tuple or dict; 0 for others. */
TSCOMPILE_API size_t tscompile_value_count(const tscompile_value* value);
/* An item, or of a dict a value or key, in order of insertion; a handle of its own. NULL if there is none. */
TSCOMPILE_API tscompile_value* tscompile_value_item(const tscompile_value* value, size_t index);
TSCOMPILE_API tscompile_value* tscompile_value_key(const tscompile_value* value, size_t index);
/* The name of an item of a named tuple; NULL if it has none. */
TSCOMPILE_API const char* tscompile_value_item_name(const tscompile_value* value, size_t index);
/* The value in the notation of the command line, tensors in full. */
TSCOMPILE_API tscompile_status tscompile_value_text(const tscompile_value* value, char** out, tscompile_error** error);

/* ---- operators ---- */

/* Computes an operator: reads `arguments`, in the order of the schema, and writes a handle for each result, which the
 * caller then owns. Arguments belong to the caller, too, and are of use until it returns; what the schema says is
 * written (`Tensor(a!) x`) is written where tscompile_value_get_tensor finds it. On failure it returns another status,
 * writes why to `message`, which has room for `room` bytes and is an empty text, and leaves results NULL. A result for
 * an argument that is written (`-> Tensor(a!)`) may be NULL. May be called by several threads at once. */
typedef tscompile_status (*tscompile_operator)(void* user_data, const tscompile_value* const* arguments,
                                               size_t argument_count, tscompile_value** results, size_t result_count,
                                               char* message, size_t room);

/* An operator of yours, such as "mylib::foo(Tensor x, float by=1.5) -> Tensor", for all that is loaded from now on in
 * this process; it takes the place of one of the same name. What it computes is a matter of its arguments: what nothing
 * uses is left out, and what is constant may be computed beforehand. `user_data` must stay until the process ends.
 * Since version 3. */
TSCOMPILE_API tscompile_status tscompile_register_operator(const char* schema, tscompile_operator function,
                                                           void* user_data, tscompile_error** error);

/* What a shape function is called with, and tells dtypes and sizes of the results to. While a model is analysed some
 * sizes and numbers are not known: they are below 0, and may be passed on as they are; TSCOMPILE_OPEN is any size. */
typedef struct tscompile_shapes tscompile_shapes;
#define TSCOMPILE_OPEN (-1)

/* Called before each run of the operator, when all is known, and while models are analysed. Returns another status, and
 * writes why to `message`, where the arguments are refused. Results that it says nothing of are known when the function
 * of the operator has run. May be called by several threads at once. */
typedef tscompile_status (*tscompile_operator_shapes)(void* user_data, tscompile_shapes* shapes, char* message,
                                                      size_t room);

/* The same with a shape function: engines can hold the operator, and what follows it is planned. Since version 6. */
TSCOMPILE_API tscompile_status tscompile_register_shaped_operator(const char* schema, tscompile_operator function,
                                                                  tscompile_operator_shapes shapes, void* user_data,
                                                                  tscompile_error** error);

/* Whether argument `index` of the schema is a tensor. Then `out` has its dtype (or TSCOMPILE_UNKNOWN_DTYPE), its rank
 * (-1: not known) and sizes, which are of use until the shape function returns; neither strides nor elements. */
TSCOMPILE_API int tscompile_shapes_tensor(const tscompile_shapes* shapes, size_t index, tscompile_tensor* out);
/* The items of an argument that is a list of tensors; 0 while it is not known. */
TSCOMPILE_API size_t tscompile_shapes_count(const tscompile_shapes* shapes, size_t index);
TSCOMPILE_API int tscompile_shapes_item(const tscompile_shapes* shapes, size_t index, size_t item,
                                        tscompile_tensor* out);
/* Whether an argument that is an int is known. One that is not is written as a size that may be passed on. */
TSCOMPILE_API int tscompile_shapes_int(const tscompile_shapes* shapes, size_t index, int64_t* out);
/* An argument that is known, tensors and lists of them apart; a handle of its own. NULL while it is not. */
TSCOMPILE_API tscompile_value* tscompile_shapes_value(const tscompile_shapes* shapes, size_t index);
/* Result `index` is a tensor of this dtype and these sizes. A rank of -1 leaves the sizes open. TSCOMPILE_USAGE where
 * there are no such results, dtypes or sizes. */
TSCOMPILE_API tscompile_status tscompile_shapes_result(tscompile_shapes* shapes, size_t index, tscompile_dtype dtype,
                                                       int32_t rank, const int64_t* sizes);

/* ---- modules ---- */

typedef struct tscompile_module tscompile_module;

typedef struct tscompile_load_options {
  size_t size;
  const char* const* weights; /* files of weights; not for engine files */
  size_t weight_count;
  const char* const* plugins; /* libraries (docs/plugins.md) */
  size_t plugin_count;
  const char* const* limits; /* "nodes=1000" (tscompile help limits) */
  size_t limit_count;
  const char* const* rules; /* files of rewrite rules (docs/rewriting.md), or their text. Since version 4. */
  size_t rule_count;
} tscompile_load_options;

/* Graph text, a module dump, a TorchScript archive, a file of torch.export.save, an engine file. `options` may be NULL.
 */
TSCOMPILE_API tscompile_status tscompile_load(const char* path, const tscompile_load_options* options,
                                              tscompile_module** out, tscompile_error** error);
/* The bytes of such a file, which are not needed afterwards. `name` stands for the path in messages. */
TSCOMPILE_API tscompile_status tscompile_load_memory(const void* bytes, size_t count, const char* name,
                                                     const tscompile_load_options* options, tscompile_module** out,
                                                     tscompile_error** error);
TSCOMPILE_API void tscompile_module_free(tscompile_module* module);
/* What loading it, or compiling it, warned of (weights that lack some of the model's): problems whose status is
 * TSCOMPILE_OK, and their text. NULL: nothing. It belongs to the module, and is not freed. Since version 7. */
TSCOMPILE_API const tscompile_error* tscompile_module_warnings(const tscompile_module* module);

TSCOMPILE_API size_t tscompile_module_method_count(const tscompile_module* module);
TSCOMPILE_API const char* tscompile_module_method_name(const tscompile_module* module, size_t index);
/* Whether it has engines: it was compiled, or is of an engine file. */
TSCOMPILE_API int tscompile_module_is_compiled(const tscompile_module* module);

typedef struct tscompile_compile_options {
  size_t size;
  const char* method; /* NULL: "forward" */
  /* Sizes of inputs, "x=1..8x3x224x224:f32"; without "x=" those of the tensors in order. None: as they come. */
  const char* const* inputs;
  size_t input_count;
  /* Of the command line without its dashes, "precision=f16", "min-block-size=5", "refittable". */
  const char* const* settings;
  size_t setting_count;
} tscompile_compile_options;

/* The method with engines for all that engines can take. `options` may be NULL. */
TSCOMPILE_API tscompile_status tscompile_module_compile(const tscompile_module* module,
                                                        const tscompile_compile_options* options,
                                                        tscompile_module** out, tscompile_error** error);
/* Writes a compiled module to an engine file, which tscompile_load reads. */
TSCOMPILE_API tscompile_status tscompile_module_save(const tscompile_module* module, const char* path,
                                                     tscompile_error** error);

/* Reports as JSON, the same as of the command line with --format json: how the method would be cut ("tscompile
 * partition"), and why nodes run where they do, by "%value" or "aten::operator" ("tscompile explain"). */
TSCOMPILE_API tscompile_status tscompile_module_partition(const tscompile_module* module,
                                                          const tscompile_compile_options* options, char** json,
                                                          tscompile_error** error);
TSCOMPILE_API tscompile_status tscompile_module_explain(const tscompile_module* module,
                                                        const tscompile_compile_options* options, const char* node,
                                                        char** json, tscompile_error** error);

/* ---- methods ---- */

typedef struct tscompile_method tscompile_method;
typedef struct tscompile_interrupt tscompile_interrupt;
typedef struct tscompile_state tscompile_state;

/* An input or output. */
typedef struct tscompile_value_info {
  size_t size;
  const char* name;
  const char* type;      /* "Tensor", "Float(1, 3, *, *)", "Dict(str, Tensor)" */
  tscompile_kind kind;   /* TSCOMPILE_OTHER for what may be of several kinds, such as optionals */
  tscompile_dtype dtype; /* of a tensor, if it is known */
  int32_t rank;          /* the same; -1: not known */
  const int64_t* sizes;  /* of each dimension, -1 where it is open; NULL if the rank is not known */
  int is_optional;       /* may be None, or left out */
} tscompile_value_info;

/* `name` may be NULL: "forward". The method keeps what it needs of the module. */
TSCOMPILE_API tscompile_status tscompile_module_prepare(const tscompile_module* module, const char* name,
                                                        tscompile_method** out, tscompile_error** error);
TSCOMPILE_API void tscompile_method_free(tscompile_method* method);
TSCOMPILE_API size_t tscompile_method_input_count(const tscompile_method* method);
TSCOMPILE_API size_t tscompile_method_output_count(const tscompile_method* method);
/* False if there is no such input or output. */
TSCOMPILE_API int tscompile_method_input(const tscompile_method* method, size_t index, tscompile_value_info* out);
TSCOMPILE_API int tscompile_method_output(const tscompile_method* method, size_t index, tscompile_value_info* out);

typedef struct tscompile_run_options {
  size_t size;
  uint64_t memory_limit;                /* bytes of tensors at a time; 0: none */
  uint64_t time_limit_ns;               /* 0: none */
  uint64_t seed;                        /* of random numbers */
  int32_t threads;                      /* 0: as many as the process may use */
  const tscompile_interrupt* interrupt; /* NULL: none */
  /* What the model prints and warns of; NULL: dropped. The text ends with a zero byte. */
  void (*print)(void* context, const char* text);
  void (*warn)(void* context, const char* text);
  void* context;
  tscompile_state* state; /* NULL: the run begins with the module as it was loaded. Since version 2. */
} tscompile_run_options;

/* Runs it. `inputs` are as many as there are, or fewer where the rest may be left out; NULL is left out as well. Writes
 * a handle for each output. `options` may be NULL. */
TSCOMPILE_API tscompile_status tscompile_method_run(const tscompile_method* method,
                                                    const tscompile_value* const* inputs, size_t input_count,
                                                    const tscompile_run_options* options, tscompile_value** outputs,
                                                    size_t output_count, tscompile_error** error);
/* Runs it `runs` times (0: as many as fit in a second) and tells where the time goes, as JSON in the form of "tscompile
 * profile". */
TSCOMPILE_API tscompile_status tscompile_method_profile(const tscompile_method* method,
                                                        const tscompile_value* const* inputs, size_t input_count,
                                                        const tscompile_run_options* options, size_t runs, char** json,
                                                        tscompile_error** error);

/* Stops runs that were given it, soon after it is set. NULL only if there is no memory. */
TSCOMPILE_API tscompile_interrupt* tscompile_interrupt_new(void);
TSCOMPILE_API void tscompile_interrupt_set(tscompile_interrupt* interrupt, int value);
TSCOMPILE_API void tscompile_interrupt_free(tscompile_interrupt* interrupt);

/* What runs leave in the attributes of a module for those that come after, since version 2. Runs that are given one of
 * these, one after the other, go on where the last one ended, as calls of a module do in PyTorch; the first begins with
 * the module as it was loaded. For the methods of one module and what was compiled of it with the setting "keep-state";
 * for one run at a time. Outputs may share memory with it. NULL only if there is no memory. */
TSCOMPILE_API tscompile_state* tscompile_state_new(void);
/* As it was new. */
TSCOMPILE_API void tscompile_state_clear(tscompile_state* state);
TSCOMPILE_API void tscompile_state_free(tscompile_state* state);

/* ---- language models (docs/language_models.md), since version 5 ---- */

typedef struct tscompile_build_options {
  size_t size;
  const char* config;          /* a file of settings as JSON; NULL: none */
  const char* const* settings; /* "max_seq_len=512" */
  size_t setting_count;
  /* What `build` warns of and remarks, each with its place: why steps compute whole texts, what is left out. NULL:
   * dropped. Since version 7. */
  void (*warn)(void* context, const char* text);
  void* context;
} tscompile_build_options;

/* Makes a folder that serves a decoder, as "tscompile build" does. `options` may be NULL. */
TSCOMPILE_API tscompile_status tscompile_language_model_build(const tscompile_module* module, const char* folder,
                                                              const tscompile_build_options* options,
                                                              tscompile_error** error);

/* A folder at work; for one thread at a time. */
typedef struct tscompile_language_model tscompile_language_model;

typedef struct tscompile_serve_options {
  size_t size;
  const char* tokenizer;      /* a file; NULL: that of the folder, else bytes where there are 256 tokens */
  const char* const* plugins; /* libraries */
  size_t plugin_count;
  uint64_t memory_limit, time_limit_ns; /* of each step; 0: none */
  int32_t threads;                      /* 0: as many as the process may use */
  const tscompile_interrupt* interrupt; /* stops steps; all texts end as cancelled. NULL: none */
} tscompile_serve_options;

TSCOMPILE_API tscompile_status tscompile_language_model_load(const char* folder, const tscompile_serve_options* options,
                                                             tscompile_language_model** out, tscompile_error** error);
TSCOMPILE_API void tscompile_language_model_free(tscompile_language_model* model);

/* Asks for a text by a request as "tscompile generate" reads it from a line: {"prompt": "The", "max_new_tokens": 20,
 * "top_k": 5}, or with "prompt_ids". Texts that are asked for run together and hurt each other in nothing. `number`,
 * which is never used again, tells them apart: it is "prompt" of events. */
TSCOMPILE_API tscompile_status tscompile_language_model_add(tscompile_language_model* model, const char* request,
                                                            size_t* number, tscompile_error** error);
/* Ends it with what it has; nothing happens if it has ended. */
TSCOMPILE_API void tscompile_language_model_cancel(tscompile_language_model* model, size_t number);
/* Runs the model once. `events` gets what came of it, lines of JSON ("tscompile.generate_event/1"): each token, and
 * each text that has ended, whose line has "finished". `more` is false once there is nothing to do. */
TSCOMPILE_API tscompile_status tscompile_language_model_step(tscompile_language_model* model, char** events, int* more,
                                                             tscompile_error** error);
/* Tokens of a text, as a list of ints, and the text of tokens. */
TSCOMPILE_API tscompile_status tscompile_language_model_encode(const tscompile_language_model* model, const char* text,
                                                               tscompile_value** out, tscompile_error** error);
TSCOMPILE_API tscompile_status tscompile_language_model_decode(const tscompile_language_model* model,
                                                               const int32_t* tokens, size_t count, char** out,
                                                               tscompile_error** error);

#ifdef __cplusplus
}
#endif

#endif
