#include "train/prepared_run.hpp"

namespace truemax {

nlohmann::ordered_json data_json(const DataView& data) {
  const DataStatistics& s = data.statistics;
  return {{"rows", data.row_count()},
          {"examples", data.size()},
          {"features", data.space->features},
          {"classes", data.classes->size()},
          {"nonzeros", data.nonzeros()},
          {"format", format_name(data.format)},
          {"rows_in_file", s.rows_in_file},
          {"rows_of_weight_zero", s.rows_of_weight_zero},
          {"rows_without_label", s.rows_without_label},
          {"rows_without_features", s.rows_without_features},
          {"unseen", s.unseen},
          {"cut_features", s.cut_features}};
}

}  // namespace truemax
