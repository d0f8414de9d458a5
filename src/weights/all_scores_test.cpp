#include "weights/all_scores.hpp"

#include <gtest/gtest.h>

#include "weights/kernels.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

TEST(AllScores, AreTheScoresOfSingleClasses) {
  Engine random(5);
  for (const std::size_t classes : {1U, 16U, 17U, 50U})
    for (const bool intercept : {false, true})
      for (const bool scaled : {false, true}) {
        Weights w = random_weights(random, classes, 12, intercept, 3);
        if (scaled) {
          w.allow_scaling();
          for (ClassId k = 0; k < classes; ++k) w.scale_class(k, 1 / (1.5 + k));
        }
        const Csr rows = random_rows(random, 40, 12, 6, 3);
        for (const std::size_t threads : {1U, 3U}) {
          std::vector<double> out(rows.rows() * classes);
          all_scores(w, rows.view(), threads, out);
          for (std::size_t r = 0; r < rows.rows(); ++r)
            for (ClassId k = 0; k < classes; ++k)
              ASSERT_EQ(out[r * classes + k], score(w, rows.row(r), k)) << classes << " " << scaled;
        }
      }
}

}  // namespace
}  // namespace truemax
