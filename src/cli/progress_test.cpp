// Progress of a search and of the fit after it, as shown on a terminal.
#include "cli/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "train/test_support.hpp"

namespace truemax {
namespace {

using testing::HasSubstr;
using testing::Not;

SearchTrial some_trial() {
  SearchTrial trial;
  trial.about = "ridge", trial.number = 3;
  trial.step = 2, trial.ridge = 0.5, trial.rows = 1000, trial.steps = 4000, trial.judged_on = 100;
  trial.log_loss = 1.25, trial.seconds = 7;
  return trial;
}

TEST(TrainProgress, ShowsATrialBeforeAndAfterItRuns) {
  TrainProgress progress;
  testing::internal::CaptureStderr();
  progress.trying(some_trial());
  const std::string before = testing::internal::GetCapturedStderr();
  EXPECT_THAT(before, HasSubstr("trial   3  ridge   step 2, ridge 0.5, 4 epochs of 1000 rows"));
  EXPECT_THAT(before, Not(HasSubstr("log-loss")));
  testing::internal::CaptureStderr();
  progress.tried(some_trial());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("log-loss 1.2500 on 100 held-out rows  7.0 s\n"));
  SearchTrial lost = some_trial();
  lost.log_loss = std::numeric_limits<double>::infinity();
  testing::internal::CaptureStderr();
  progress.tried(lost);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("diverged"));
}

TEST(TrainProgress, RateAndTimeLeftExcludeTheSearch) {
  TrainProgress progress;
  Recipe options;
  options.epochs = 10;
  progress.fitting(planned(random_data({}), options), 100.0);
  testing::internal::CaptureStderr();
  progress.stepped(0, 500, 1000, 101.0);  // 500 of 10,000 steps in the first second of the fit
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, HasSubstr("epoch 1/10    5%  500 steps/s"));
  EXPECT_THAT(shown, HasSubstr("0:19 left"));
}

TEST(TrainProgress, TimeLeftIsLimitedBySeconds) {
  TrainProgress progress;
  Recipe options;
  options.epochs = kUnlimitedEpochs, options.seconds = 30;
  progress.fitting(planned(random_data({}), options), 10.0);
  testing::internal::CaptureStderr();
  progress.stepped(0, 500, 1000, 11.0);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("0:19 left"));
}

}  // namespace
}  // namespace truemax
