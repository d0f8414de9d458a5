/* truemax from C, and from every language that can call C.
 *
 * Every function returns a status. If it is not TMX_OK, tmx_message() says what was found and what to do, until
 * the next call on the same thread. No exception or abort comes out of a call. Texts are UTF-8.
 *
 * Handles are opaque. Each is freed by the function of its kind, which takes NULL too; what was made from a
 * handle stays valid without it. Several threads may read one handle at once. A run is for one thread, except
 * tmx_run_stop.
 *
 * Options are names and values of the command line (docs/options.md), as texts: {"epochs", "20"}; a switch is
 * "on" or "off".
 */
#ifndef TRUEMAX_C_H
#define TRUEMAX_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TMX_API __attribute__((visibility("default")))
#else
#define TMX_API
#endif

/* Of arguments: a caller in C may pass any number, which C++ must be able to look at. */
#ifdef __cplusplus
#define TMX_ENUM enum : int
extern "C" {
#else
#define TMX_ENUM enum
#endif

/* Grows by one when something is added; nothing is removed or changed. A program needs the version it was compiled
 * with, or a later one. */
#define TMX_API_VERSION 3
TMX_API int tmx_api_version(void);
TMX_API const char* tmx_version(void); /* of truemax: "0.1.0" */

typedef enum {
  TMX_OK = 0,
  TMX_BAD_INPUT = 2, /* data, options or arguments that cannot be used */
  TMX_DIVERGED = 3,  /* the method left the range of double; the run has the last good model */
  TMX_NO_MEMORY = 4,
  TMX_INTERNAL = 5 /* a fault of truemax: please report it */
} tmx_status;

/* What the last call on this thread had to say; "" after a success. */
TMX_API const char* tmx_message(void);

typedef struct tmx_data tmx_data;
typedef struct tmx_model tmx_model;
typedef struct tmx_run tmx_run;

typedef struct {
  const char* name;
  const char* value;
} tmx_option;

typedef TMX_ENUM { TMX_INT32 = 0, TMX_INT64 = 1, TMX_FLOAT32 = 2, TMX_FLOAT64 = 3 } tmx_type;

/* Rows in the caller's arrays. Set everything that is not needed to 0.
 *
 * Sparse (CSR): offsets [rows + 1], and indices and values with `numbers` entries each. Dense: offsets and indices
 * are NULL, and the value of row r and column c is r * row_stride + c * column_stride bytes after `values`.
 *
 * Offsets, indices, labels and weights are copied and checked. Values stay where they are if they are float32 in CSR
 * with ascending indices in each row and without zeros, and no option or weight changes or drops them; otherwise they
 * are converted once. Values that stay are read until the data are freed: do not change them before. */
typedef struct {
  size_t size; /* sizeof(tmx_rows) */
  uint64_t rows, columns;
  const void* offsets; /* int32 or int64 */
  const void* indices; /* int32 or int64 */
  const void* values;  /* float32 or float64 */
  tmx_type offset_type, index_type, value_type;
  uint64_t numbers;
  int64_t row_stride, column_stride;
  /* Labels are numbers of names. Row r has labels label_begin[r] to label_begin[r + 1]; label_begin NULL: one each.
   * label NULL: rows without labels, for prediction. */
  const uint64_t* label_begin;
  const int32_t* label;
  const char* const* names;
  uint64_t name_count;
  /* Training. Examples of each name in earlier data: a name with a count above 0 is a class even without a row here.
   * NULL: all 0. */
  const double* name_counts;
  const double* name_weights; /* class weights, by name; NULL: all 1 */
  const double* weights;      /* of rows; NULL: all 1 */
  /* Called exactly once with `owner`, when the arrays are no longer used, also if the call fails; may be NULL. If
   * `size` is wrong, nothing else is read and nothing is called. */
  void (*release)(void* owner);
  void* owner;
} tmx_rows;

/* Training data from a file. Options of reading and preprocessing: format, normalize, labels, max-rows, encoder, ... */
TMX_API tmx_status tmx_data_read(const char* path, const tmx_option* options, size_t count, tmx_data** out);
/* Training data from arrays. Options: normalize, labels, max-features, hash-features, memory-limit. */
TMX_API tmx_status tmx_data_from_rows(const tmx_rows* rows, const tmx_option* options, size_t count, tmx_data** out);

typedef TMX_ENUM {
  TMX_FOR_EVALUATION = 0, /* needs labels */
  TMX_FOR_PREDICTION = 1  /* ignores them */
} tmx_purpose;

/* Rows for a model, with its classes, features and preprocessing. Of triples and for evaluation, the option `filter`
 * names a file of further true triples; it may be given more than once. */
TMX_API tmx_status tmx_data_read_for(const tmx_model* model, tmx_purpose purpose, const char* path,
                                     const tmx_option* options, size_t count, tmx_data** out);
TMX_API tmx_status tmx_data_from_rows_for(const tmx_model* model, tmx_purpose purpose, const tmx_rows* rows,
                                          const tmx_option* options, size_t count, tmx_data** out);
/* The same with those of training data: rows to validate on. */
TMX_API tmx_status tmx_data_read_beside(const tmx_data* train, const char* path, const tmx_option* options,
                                        size_t count, tmx_data** out);
TMX_API tmx_status tmx_data_from_rows_beside(const tmx_data* train, const tmx_rows* rows, const tmx_option* options,
                                             size_t count, tmx_data** out);
/* {"rows", "examples", "features", "classes", "nonzeros", "rows_without_features", ..., "in_place": whether the values
 * stayed where they are, "notes": [texts for the user],
 * "first_step": a sound step for one pass over the rows}. The text lives until the next call on this thread. */
TMX_API tmx_status tmx_data_json(const tmx_data* data, const char** json);
TMX_API void tmx_data_free(tmx_data* data);

/* A training run. `valid` (made beside `data`) and `start` may be NULL. `start`: a model to start from, which has the
 * same features; classes that it lacks start as in any run. Options: those of `truemax train` that concern training,
 * and memory-limit. */
TMX_API tmx_status tmx_run_create(const tmx_data* data, const tmx_data* valid, const tmx_model* start,
                                  const tmx_option* options, size_t count, tmx_run** out);
/* What the run will do, before it does: {"plan": as `truemax plan --json` has it, "not_taken": {solver: why},
 * "notes": [texts for the user], "text": what `truemax plan` prints of it}. Until the next call on this thread. */
TMX_API tmx_status tmx_run_plan(const tmx_run* run, const char** json);
/* Called on the thread that trains. `json` is one object with "event":
 *   trying, trial        before and after a trial of the search: about, number, step, ridge, hidden, log_loss, ...
 *   fit                  the search is over: config
 *   step, trial_step     now and then (some ten times a second): steps, of, epoch, seconds
 *   evaluating           now and then: rows, of
 *   evaluate             epoch, steps, train_seconds, train and valid with their figures, best
 * Not 0: stop at the next step, and keep what was learnt. */
typedef int (*tmx_callback)(const char* json, void* context);
/* Trains to the end, once. TMX_OK also if it was stopped. */
TMX_API tmx_status tmx_run_train(tmx_run* run, tmx_callback callback, void* context);
/* Asks a run to stop at the next step; from any thread, or a signal handler. */
TMX_API void tmx_run_stop(tmx_run* run);
/* {"epochs", "steps", "train_seconds", "trial_seconds", "trials", "interrupted", "searched": false if it was stopped
 * while it searched, "config": the options it used, "solver", "plan": of the fit, "notes", "diverged": the message, if
 * it did}. */
TMX_API tmx_status tmx_run_json(const tmx_run* run, const char** json);
/* The model of a run that has ended. */
TMX_API tmx_status tmx_run_model(const tmx_run* run, tmx_model** out);
TMX_API void tmx_run_free(tmx_run* run);

/* Option: memory-limit. */
TMX_API tmx_status tmx_model_load(const char* path, const tmx_option* options, size_t count, tmx_model** out);
TMX_API tmx_status tmx_model_save(const tmx_model* model, const char* path);
TMX_API void tmx_model_free(tmx_model* model);
/* columns: of the tensor `weight`; the features, or the learnt ones. Any of the three may be NULL. */
TMX_API tmx_status tmx_model_shape(const tmx_model* model, uint64_t* classes, uint64_t* features, uint64_t* columns);
/* The metadata of the model file (docs/model-file.md); until the next call on this thread. */
TMX_API tmx_status tmx_model_metadata(const tmx_model* model, const char** json);
/* Copies a tensor of the model file: weight [classes][columns], intercept [classes], embedding [features][columns],
 * context. *count: the numbers that fit into `out`; receives those of the tensor, 0 if the model has none of this
 * name. `out` may be NULL to ask for the count. */
TMX_API tmx_status tmx_model_tensor(const tmx_model* model, const char* name, float* out, uint64_t* count);

typedef TMX_ENUM { TMX_PROBABILITY = 0, TMX_LOG_PROBABILITY = 1, TMX_SCORE = 2 } tmx_value;

/* All classes of each row, [rows][classes], classes in the order of the model file. `count`: the numbers that fit into
 * `out`. 0 threads: all cores. `data`: of any purpose, made for this model, or the training data. */
TMX_API tmx_status tmx_predict(const tmx_model* model, const tmx_data* data, tmx_value value, size_t threads,
                               double* out, uint64_t count);
/* The `top` most probable classes of each row, [rows][top], most probable first: their numbers in the order of the model
 * file, and probabilities. top is at most the number of classes. Memory does not depend on the number of classes. */
TMX_API tmx_status tmx_predict_top(const tmx_model* model, const tmx_data* data, uint64_t top, size_t threads,
                                   int32_t* classes, double* probabilities, uint64_t count);
/* An index of a model's classes: the best of a row are found without scoring all of them (docs/topk-index.md).
 * `rows` (made for this model; like those to predict, may be NULL) tell how many cells a row must look into. Options:
 * recall, top, cells, seed, threads. */
typedef struct tmx_index tmx_index;
TMX_API tmx_status tmx_index_build(const tmx_model* model, const tmx_data* rows, const tmx_option* options,
                                   size_t count, tmx_index** out);
/* A file of `truemax index` or tmx_index_save. An index of other weights is refused. */
TMX_API tmx_status tmx_index_load(const tmx_model* model, const char* path, tmx_index** out);
TMX_API tmx_status tmx_index_save(const tmx_index* index, const char* path);
/* {"classes", "cells", "bytes", "probes": cells of a row, 0 if not known, "target", and if rows were given "top", "rows",
 * "recall", "recall_error"}. */
TMX_API tmx_status tmx_index_json(const tmx_index* index, const char** json);
TMX_API void tmx_index_free(tmx_index* index);
/* As tmx_predict_top. Options: recall, normaliser (sampled, exact), threads. `errors` [rows], may be NULL: half of the
 * 95% interval of the logarithm of a row's probabilities. `json`, may be NULL: {"recall", "recall_error",
 * "recall_rows": rows that were searched exactly too, "target", "too_low", "probes", ...}. */
TMX_API tmx_status tmx_index_predict_top(const tmx_index* index, const tmx_data* data, uint64_t top,
                                         const tmx_option* options, size_t option_count, int32_t* classes,
                                         double* probabilities, double* errors, uint64_t count, const char** json);

/* The figures of `truemax evaluate --json`. */
TMX_API tmx_status tmx_evaluate(const tmx_model* model, const tmx_data* data, size_t threads, const char** json);
/* Triples: the ranks of tail and head of each, [triples][2]. *count as for tmx_model_tensor. */
TMX_API tmx_status tmx_ranks(const tmx_model* model, const tmx_data* data, size_t threads, double* out,
                             uint64_t* count);

/* The last layer of a network: softmax over z = W x + b for very many classes and rows x from elsewhere (docs/c.md).
 * A step costs the same for any number of classes. All numbers that last from step to step are in arrays of the
 * caller; the layer itself holds only memory for its steps, and counts that were given. Several threads may use one
 * layer; they wait for each other. */
typedef struct tmx_layer tmx_layer;
typedef struct tmx_pass tmx_pass; /* one batch between forward and backward */

typedef enum {
  TMX_DRAW_UNIFORM = 0,
  TMX_DRAW_COUNTS = 1, /* by given counts of the classes */
  TMX_DRAW_RECENT = 2  /* by the labels of the last steps */
} tmx_layer_draw;

typedef struct {
  size_t size; /* sizeof(tmx_layer_options) */
  uint64_t classes, features;
  uint64_t drawn; /* classes that the rows of a step share; `classes` or more: all of them, which is exact */
  tmx_layer_draw draw;
  const double* counts; /* [classes], copied; only for TMX_DRAW_COUNTS */
  double rho;           /* how fast u forgets, 0.1 is good; infinity: u is only what the draw says */
  uint64_t threads; /* 0: all cores */
} tmx_layer_options;

TMX_API tmx_status tmx_layer_create(const tmx_layer_options* options, tmx_layer** out);
TMX_API void tmx_layer_free(tmx_layer* layer); /* passes stay valid */

/* The arrays of a layer. All zeros are a start, except `u`: NaN. */
typedef struct {
  size_t size;    /* sizeof(tmx_layer_arrays) */
  int32_t device; /* -1: the CPU; no other is possible yet */
  void* stream;   /* NULL */
  tmx_type type;  /* of weight, bias, u, x and their gradients: TMX_FLOAT32 */
  float* weight;  /* [classes][features] */
  int64_t weight_stride; /* bytes from one class to the next */
  float* bias;           /* [classes], or NULL: none */
  float* moments;        /* [classes][6] and columns [2][features]: of the steps so far; NULL where nothing is trained */
  float* columns;        /* forward reads them, for its backward */
  float* u;              /* [rows]: NaN where a row has not been trained on; NULL if rows is 0 */
  uint64_t rows;
  int32_t* recent; /* [recent_size] and [classes]; only for TMX_DRAW_RECENT. `classes` labels or more are good. */
  uint64_t recent_size;
  int32_t* recent_count;
  uint64_t seed;     /* with `counters`: the random numbers of the next step */
  int64_t* counters; /* [2]: steps taken, labels counted */
} tmx_layer_arrays;

typedef struct {
  size_t size; /* sizeof(tmx_layer_batch) */
  uint64_t rows;
  const float* x;   /* [rows][features] */
  int64_t x_stride; /* bytes from one row to the next */
  const int64_t* target; /* [rows] */
  int64_t ignore_index;  /* rows with this target have loss and gradient 0 */
  const int64_t* index;  /* [rows]: the place of each row in u. NULL: u comes from the draw alone, which is biased. */
} tmx_layer_batch;

/* The estimate of each row's log-loss, [rows]; exact if all classes are drawn. Changes none of the arrays. `pass` gets
 * what backward needs; NULL if there will be none. */
TMX_API tmx_status tmx_layer_forward(tmx_layer* layer, const tmx_layer_arrays* arrays, const tmx_layer_batch* batch,
                                     float* loss, tmx_pass** pass);
/* Takes a step: once for each pass. `gradient` [rows]: of your objective in each row's loss. dx [rows][features], rows
 * dx_stride bytes apart, receives its gradient in x; NULL: not wanted. weight, bias and moments move along the gradient
 * of sum_i gradient_i loss_i / sum_i |gradient_i|, on which a common factor has no effect; rows with gradient 0 change
 * nothing. `step` is like the learning rate of Adam: 0.001 beside a network that follows Adam with that rate, 0.002 if
 * not all classes are drawn. The arrays must have the shapes of those of forward: rows, bias or none, weight_stride,
 * recent_size. Unless TMX_OK, no array has changed; TMX_DIVERGED: a number could have left float32. */
TMX_API tmx_status tmx_layer_backward(const tmx_layer_arrays* arrays, tmx_pass* pass, const float* gradient,
                                      double step, float* dx, int64_t dx_stride);
TMX_API void tmx_pass_free(tmx_pass* pass);

/* The exact log-loss of each row over all classes, [rows]; 0 for ignored rows. `index` is not used. */
TMX_API tmx_status tmx_layer_nll(tmx_layer* layer, const tmx_layer_arrays* arrays, const tmx_layer_batch* batch,
                                 double* loss);
/* The `top` most probable classes of each row, [rows][top], most probable first, with exact log-probabilities. Neither
 * `target` nor `index` is used. */
TMX_API tmx_status tmx_layer_top(tmx_layer* layer, const tmx_layer_arrays* arrays, const tmx_layer_batch* batch,
                                 uint64_t top, int64_t* classes, double* log_probabilities);

/* The options of `truemax train` as a JSON array: name, help, default, plain_default, range, values, group, and "of":
 * "train" (tmx_run_create), "rows" (tmx_data_from_rows, tmx_data_read) or "run" (files and outputs of the program). For
 * bindings that describe them. */
TMX_API tmx_status tmx_options_json(const char** json);

#ifdef __cplusplus
}
#endif

#endif
