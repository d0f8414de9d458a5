/* The C interface from C: trains on arrays, evaluates, predicts, saves, loads. Prints what went wrong and returns 1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "truemax/c.h"

#define ROWS 200
#define COLUMNS 6
#define CLASSES 3

static void must(tmx_status status, const char* what) {
  if (status == TMX_OK) return;
  fprintf(stderr, "%s: status %d: %s\n", what, (int)status, tmx_message());
  exit(1);
}

static void require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static int events;
static int count_events(const char* json, void* context) {
  require(json[0] == '{' && strstr(json, "\"event\"") != NULL, "an event is no JSON object");
  ++*(int*)context;
  return 0;
}

static int released;
static void release(void* owner) {
  require(owner == (void*)&released, "another owner came back");
  ++released;
}

int main(int argc, char** argv) {
  static float values[ROWS][COLUMNS];
  static int32_t labels[ROWS];
  const char* names[CLASSES] = {"red", "green", "blue"};
  const char* path = argc > 1 ? argv[1] : "c_api.safetensors";
  unsigned state = 1;
  for (int r = 0; r < ROWS; ++r) {
    labels[r] = r % CLASSES;
    for (int c = 0; c < COLUMNS; ++c) {
      state = state * 1103515245u + 12345u;
      values[r][c] = (float)(state >> 16 & 0xff) / 256 + (c == labels[r] ? 2 : 0);
    }
  }
  tmx_rows rows;
  memset(&rows, 0, sizeof rows);
  rows.size = sizeof rows;
  rows.rows = ROWS;
  rows.columns = COLUMNS;
  rows.values = values;
  rows.value_type = TMX_FLOAT32;
  rows.row_stride = sizeof values[0];
  rows.column_stride = sizeof values[0][0];
  rows.label = labels;
  rows.names = names;
  rows.name_count = CLASSES;
  rows.release = release;
  rows.owner = &released;

  require(tmx_api_version() >= TMX_API_VERSION, "the library is older than the header");
  require(strlen(tmx_version()) > 0, "there is no version");
  tmx_data* data = NULL;
  must(tmx_data_from_rows(&rows, NULL, 0, &data), "data");
  tmx_option options[] = {{"seed", "3"}, {"threads", "1"}};
  tmx_run* run = NULL;
  must(tmx_run_create(data, NULL, NULL, options, 2, &run), "run");
  const char* plan = NULL;
  must(tmx_run_plan(run, &plan), "the plan");
  require(strstr(plan, "\"solver\":\"newton\"") != NULL, "the plan does not name its solver");
  must(tmx_run_train(run, count_events, &events), "train");
  require(events > 2, "there were too few events");
  tmx_model* model = NULL;
  must(tmx_run_model(run, &model), "model");
  const char* json = NULL;
  must(tmx_run_json(run, &json), "the run's figures");
  require(strstr(json, "\"interrupted\":false") != NULL, "the run was interrupted");
  must(tmx_evaluate(model, data, 1, &json), "evaluate");
  const char* loss = strstr(json, "\"log_loss\":");
  require(loss != NULL && atof(loss + 11) < 0.1, "it did not learn");
  tmx_run_free(run);
  tmx_data_free(data);
  require(released == 1, "the arrays were not released once");

  must(tmx_model_save(model, path), "save");
  tmx_model* loaded = NULL;
  must(tmx_model_load(path, NULL, 0, &loaded), "load");
  rows.label = NULL;
  rows.release = NULL;
  tmx_data* unseen = NULL;
  must(tmx_data_from_rows_for(loaded, TMX_FOR_PREDICTION, &rows, NULL, 0, &unseen), "rows to predict");
  static double here[ROWS][CLASSES], there[ROWS][CLASSES];
  must(tmx_predict(model, unseen, TMX_PROBABILITY, 0, &here[0][0], ROWS * CLASSES), "predict");
  must(tmx_predict(loaded, unseen, TMX_PROBABILITY, 0, &there[0][0], ROWS * CLASSES), "predict with the loaded model");
  require(memcmp(here, there, sizeof here) == 0, "a saved model predicts something else");
  for (int r = 0; r < ROWS; ++r)
    require(fabs(here[r][0] + here[r][1] + here[r][2] - 1) < 1e-12, "probabilities do not add up to one");
  static int32_t top[ROWS];
  static double probability[ROWS];
  must(tmx_predict_top(loaded, unseen, 1, 1, top, probability, ROWS), "the most probable classes");
  /* In the order of the model file: blue, green, red. */
  for (int r = 0; r < ROWS; ++r) require(top[r] == 2 - labels[r], "a class is wrong");

  require(tmx_model_load("/no/such/file", NULL, 0, &loaded) == TMX_BAD_INPUT, "a missing file was loaded");
  require(strstr(tmx_message(), "/no/such/file") != NULL, "the message does not name the file");
  tmx_data_free(unseen);
  tmx_model_free(loaded);
  tmx_model_free(model);
  tmx_model_free(NULL);
  printf("ok: %d events\n", events);
  return 0;
}
