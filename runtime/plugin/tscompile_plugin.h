/* The C interface between tscompile and plugins: what a shared library with plugins offers, and what it is given.
 * Stable: within one major version, structs only grow at their end. Each begins with its size; whoever reads one looks
 * at no member past the size that it was made with, and absent members (and null pointers where "may be null" is said)
 * have the defaults stated here. Most authors write against the C++ layer over it, plugin_sdk.h; docs/plugins.md is the
 * guide.
 *
 * Ownership. Each side frees what it allocated. Strings and arrays handed over a call are valid during that call only,
 * unless "static" is said: then they live as long as the library is open. No C++ type, exception, FILE* or errno
 * crosses the border; a callback that throws is a plugin that fails.
 *
 * Threads. All callbacks may be called at the same time for different objects (`self`), on any thread. For one object,
 * the host never calls two at a time. Plugins start no threads: `parallel_for` has the host's. They leave the
 * floating-point environment as it is. */
#ifndef TSCOMPILE_PLUGIN_H
#define TSCOMPILE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Major version in the upper half: the host refuses a library of another major version. Minor in the lower half: what
 * libraries of a smaller one have to know. 1: set_rows is for outputs with TSC_PORT_FEWER_ROWS. */
#define TSC_ABI_MAJOR 1u
#define TSC_ABI_MINOR 1u
#define TSC_ABI_VERSION ((TSC_ABI_MAJOR << 16) | TSC_ABI_MINOR)

/* Bytes of UTF-8, not terminated. */
typedef struct tsc_str {
  const char* data;
  size_t size;
} tsc_str;

typedef enum tsc_status {
  TSC_OK = 0,
  TSC_INVALID = 1,     /* what was given is wrong: fields, sizes, values of lengths */
  TSC_UNSUPPORTED = 2, /* it has a meaning, but this plugin cannot do it */
  TSC_NO_MEMORY = 3,
  TSC_FAILED = 4,    /* anything else */
  TSC_CANCELLED = 5, /* the host asked it to stop */
} tsc_status;

/* ---- fields: the settings of one instance ---- */

typedef enum tsc_field_type {
  TSC_BOOL = 1,   /* uint8_t, 0 or 1 */
  TSC_INT = 2,    /* int64_t */
  TSC_FLOAT = 3,  /* double */
  TSC_STRING = 4, /* tsc_str */
  TSC_BYTES = 5,  /* uint8_t; `count` bytes */
} tsc_field_type;

/* A field with its values: `data` points to `count` items of the type. */
typedef struct tsc_field {
  tsc_str name;
  uint32_t type; /* tsc_field_type */
  uint32_t list; /* 1: a list of them; 0: one, and count is 1 (of TSC_BYTES: as many as there are) */
  size_t count;
  const void* data;
} tsc_field;

#define TSC_FIELD_MANDATORY 1u
#define TSC_FIELD_LIST 2u

/* One row of a plugin's table of fields. Everything in it is static. */
typedef struct tsc_field_info {
  size_t size; /* of this struct */
  tsc_str name;
  uint32_t type;
  uint32_t flags;            /* TSC_FIELD_... */
  const tsc_field* fallback; /* the value of a field that is left out; may be null for mandatory ones */
  double minimum, maximum;   /* of numbers, both included */
  size_t least, most;        /* of lists: how many items */
  tsc_str choices;           /* of strings: "none|linear|dynamic"; empty: any text */
  tsc_str doc;
} tsc_field_info;

/* Takes fields one by one; they are copied during the call. */
typedef void (*tsc_put)(void* sink, const tsc_field* field);

/* ---- tensors ---- */

/* Element types: the same numbers as PyTorch's ScalarType. */
typedef enum tsc_dtype {
  TSC_NONE = -1, /* an optional tensor that is absent */
  TSC_U8 = 0,
  TSC_I8 = 1,
  TSC_I16 = 2,
  TSC_I32 = 3,
  TSC_I64 = 4,
  TSC_F16 = 5,
  TSC_F32 = 6,
  TSC_F64 = 7,
  TSC_BOOLEAN = 11,
  TSC_BF16 = 15,
} tsc_dtype;
#define TSC_DTYPE_BIT(dtype) (1u << (unsigned)(dtype))

#define TSC_PORT_OPTIONAL 1u   /* an input that may be absent */
#define TSC_PORT_HOST 2u       /* an input whose elements the shapes depend on: small, integers */
#define TSC_PORT_FEWER_ROWS 4u /* an output whose first size `shapes` only bounds: a run tells it by set_rows */

/* One row of a plugin's table of inputs or of outputs. Everything in it is static. */
typedef struct tsc_port {
  size_t size; /* of this struct */
  tsc_str name;
  uint32_t flags;       /* TSC_PORT_... */
  uint32_t dtypes;      /* the TSC_DTYPE_BITs that it may have */
  int32_t same_type_as; /* the input whose dtype it must have as well; -1: none */
  int32_t alias;        /* of outputs: the input that it may be written over; -1: none. The host decides: where
                           another reader of that input is left, the plugin is given a copy of it */
  tsc_str doc;
} tsc_port;

/* A tensor: contiguous, row-major. Absent ones have dtype TSC_NONE. */
typedef struct tsc_tensor {
  int32_t dtype;
  uint32_t rank;
  const int64_t* dims;
  void* data; /* 64-byte aligned for outputs and workspace; null in descriptions */
} tsc_tensor;

/* A size that may not be known yet; belongs to the host, and lives during one call of `shapes`. */
typedef struct tsc_dim tsc_dim;

typedef struct tsc_shape {
  int32_t dtype; /* TSC_NONE: absent */
  uint32_t rank;
  const tsc_dim* const* dims;
  const int64_t* values; /* of inputs with TSC_PORT_HOST whose elements are known: all of them, row-major; else null */
} tsc_shape;

typedef enum tsc_dim_op {
  TSC_DIM_ADD,
  TSC_DIM_SUB,
  TSC_DIM_MUL,
  TSC_DIM_MAX,
  TSC_DIM_MIN,
  TSC_DIM_FLOOR_DIV,
  TSC_DIM_CEIL_DIV,
  TSC_DIM_EQUAL, /* 1 or 0 */
  TSC_DIM_LESS,  /* 1 or 0 */
} tsc_dim_op;

/* Part `begin` .. `end` of the work of parallel_for. */
typedef void (*tsc_task)(void* user, size_t begin, size_t end);

/* ---- what the host offers ---- */

typedef struct tsc_host {
  size_t size;
  uint32_t abi;
  /* Levels: 0 trace, 1 debug, 2 info, 3 warning, 4 error. */
  void (*log)(int level, tsc_str message);
  /* The text of the failure that this thread returns next as a status other than TSC_OK. */
  void (*fail)(tsc_str message);

  /* For `shapes`: the argument `build` of that call comes first. */
  const tsc_dim* (*dim_constant)(void* build, int64_t value);
  const tsc_dim* (*dim_apply)(void* build, uint32_t op, const tsc_dim* a, const tsc_dim* b);
  /* Whether a size is known, and then which it is. */
  int (*dim_value)(const tsc_dim* dim, int64_t* value);
  /* Sets output `index`; `dims` are as many as `rank`. */
  void (*set_shape)(void* build, size_t index, int32_t dtype, const tsc_dim* const* dims, uint32_t rank);

  /* For `run`: the argument `run` of that call comes first. */
  /* Calls task for parts of [0, n) of `grain` items (the last one may be shorter) from several threads, and returns
   * when all are done. The parts do not depend on the number of threads. */
  void (*parallel_for)(void* run, size_t n, size_t grain, tsc_task task, void* user);
  int (*cancelled)(void* run);
  /* An output with TSC_PORT_FEWER_ROWS, whose first size only a run tells: it has `rows` rows. */
  void (*set_rows)(void* run, size_t output, int64_t rows);

  /* Things that instances share by name: made by the first who asks, dropped when the last one releases it. */
  void* (*resource)(tsc_str key, void* (*make)(void* user), void (*drop)(void* resource), void* user);
  void (*resource_release)(tsc_str key);
} tsc_host;

/* ---- what a plugin offers ---- */

#define TSC_DETERMINISTIC 1u /* equal inputs give equal bits */
/* Phases of create. Building: of a node that may be compiled, and saved. Running: of a node that an engine file has,
 * and of a context of execution, if there is no attach(). */
#define TSC_BUILDING 0u
#define TSC_RUNNING 1u

typedef struct tsc_plugin {
  size_t size;
  uint32_t abi;   /* TSC_ABI_VERSION of the header that it was compiled with */
  uint32_t flags; /* TSC_DETERMINISTIC */
  /* The key: nodes of it are of the kind "<ns>::<name>". Version: a number as text. All static. */
  tsc_str ns, name, version;
  tsc_str doc;
  uint32_t fields_version; /* of the table of fields as it is saved; starts with 1 */
  const tsc_field_info* fields;
  size_t field_count;
  const tsc_port* inputs;
  size_t input_count;
  const tsc_port* outputs;
  size_t output_count;

  /* Makes an instance. `fields` are all of the table, in its order, checked, with defaults in place. */
  tsc_status (*create)(const tsc_host* host, tsc_str label, const tsc_field* fields, size_t count, uint32_t phase,
                       void** self);
  void (*destroy)(void* self);
  /* How many of the outputs this instance has; may be null: all. */
  size_t (*outputs_of)(void* self);
  /* Which input an output of this instance may be written over; -1: none. May be null: as the table of outputs says. */
  int32_t (*alias_of)(void* self, size_t output);
  /* Dtypes and sizes of the outputs from those of the inputs; pure. All inputs of the table are given, in order. */
  tsc_status (*shapes)(void* self, void* build, const tsc_shape* inputs, size_t count);
  /* Whether the tensor at `position` (inputs, then outputs) may have the dtype that it has; looks at no tensor after
   * it. Asked in addition to the dtypes of the ports. May be null: yes. */
  int (*supports)(void* self, size_t position, const tsc_tensor* tensors, size_t inputs, size_t outputs);
  /* Told before it runs, and whenever sizes change: inputs, then outputs. For a run, all three are its very sizes.
   * While a node is compiled for ranges they are the least, the usual and the most (-1: not known), once for each node
   * that has the instance; contexts that are attached later begin with what it kept of that. May be null. */
  tsc_status (*configure)(void* self, const tsc_tensor* least, const tsc_tensor* usual, const tsc_tensor* most,
                          size_t count);
  /* Bytes that a run needs beside its tensors; not less for larger ones. SIZE_MAX: it
   * fails, and `fail` has the text. May be null: none. */
  size_t (*workspace)(void* self, const tsc_tensor* tensors, size_t inputs, size_t outputs);
  /* Once before the first run of an instance, and once before it is destroyed. May be null. */
  tsc_status (*initialize)(void* self);
  void (*terminate)(void* self);
  /* Ways to compute, as positive numbers, the best guess first, for the sizes that it was configured for: writes up to
   * `room` of them and returns how many there are. The host takes the first, or times all. May be null: one way, and
   * `run` is given 0. */
  size_t (*tactics)(void* self, int32_t* ids, size_t room);
  /* Under which name a host that times tactics may keep what it finds, for all instances of that name on tensors of the
   * same types and sizes; empty: for this engine alone. May be null: the same. */
  tsc_str (*timing_id)(void* self);
  /* A copy for one context of execution, ready to run without initialize(); may share what never changes. May be null:
   * then the instance is created anew from its fields. */
  tsc_status (*attach)(void* self, void** context_self);
  /* Computes. Absent inputs have dtype TSC_NONE; outputs are not zeroed. May be null if decompose is not: then the
   * host runs that graph. */
  tsc_status (*run)(void* self, void* run, const tsc_tensor* inputs, size_t input_count, const tsc_tensor* outputs,
                    size_t output_count, void* workspace, size_t workspace_bytes, int32_t tactic);
  /* Gives the fields that make an equal instance. May be null: those that it was made with. */
  tsc_status (*save)(void* self, tsc_put put, void* sink);
  /* Fields that an older version of the table saved -> those of this one. May be null: older ones are refused. */
  tsc_status (*upgrade)(const tsc_host* host, uint32_t from_version, const tsc_field* fields, size_t count, tsc_put put,
                        void* sink);
  /* Graph text of the same function over the present inputs, in operators of the namespaces aten and prim; empty:
   * there is none. Sizes may be -1: what depends on dtypes and ranks alone serves all of them. Valid until the next
   * call on this object. May be null. */
  tsc_str (*decompose)(void* self, const tsc_tensor* inputs, size_t count);
  /* A graph text with one node of this plugin, whose inputs have types with sizes (`%x : Float(2, 3)`): what checks run
   * it on. May be null: then they look for fields and sizes that it takes. Static. */
  tsc_str (*example)(void);
} tsc_plugin;

/* The entry of a library: its plugins, `*count` of them, all static. Called once, before anything else; does nothing
 * else. `host` stays valid as long as the library is open. */
typedef const tsc_plugin* const* (*tsc_plugins_function)(const tsc_host* host, size_t* count);
#define TSC_PLUGINS_SYMBOL "tscompile_plugins_v1"

#ifdef __cplusplus
}
#endif

#endif
