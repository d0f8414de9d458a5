// Adam (Kingma & Ba, 2015) with a longer and longer memory of squares: every weight has a running mean m of
// its gradient g and one, v, of g^2, and moves by  rate m / (sqrt(v) + kAdamTiny)  (m divided by what it
// would be of a gradient of 1 so far).
//
// Adam's own v forgets at a fixed rate. The gradients of a rare feature or class then look small between
// two of its rows and large in them, and small steps do not lead to the optimum (Reddi et al., 2018). Here v
// is the mean over about the last third of the run, so that it changes less and less and the optimum is kept.
#pragma once

#include <cmath>
#include <cstdint>

namespace truemax {

inline constexpr double kAdamKeep = 0.9;  // of m in a step
// Step t = 0, 1, ... has the share kAdamWindow/(t + kAdamWindow) of v.
inline constexpr double kAdamWindow = 3;
inline constexpr double kAdamTiny = 1e-6;  // g is in units of the features, so it is at most about 1

// The numbers of a step that all weights share.
class AdamMeans {
 public:
  // After so many steps. The bound forgets all but the last hundreds of them.
  explicit AdamMeans(std::uint64_t steps = 0) : steps_(steps > kRemembered ? steps - kRemembered : 0) {
    while (steps_ < steps) advance();
  }

  void advance() {
    square_share_ = kAdamWindow / (static_cast<double>(steps_) + kAdamWindow);
    const double fresh = (1 - kAdamKeep) * (1 - kAdamKeep) / square_share_;
    reach_ = reach_ == 0 ? fresh : reach_ * kAdamKeep * kAdamKeep / (1 - square_share_) + fresh;
    ++steps_;
  }

  std::uint64_t steps() const { return steps_; }
  double square_share() const { return square_share_; }  // of the last g^2 in v
  // 1/(m of gradients of 1): m starts at 0.
  double correction() const { return 1 / (1 - std::pow(kAdamKeep, static_cast<double>(steps_))); }
  // The largest |m|/sqrt(v) that any gradients lead to. With m = sum a_i g_i and v = sum b_i g_i^2 it is the
  // root of sum a_i^2/b_i (Cauchy-Schwarz).
  double most() const { return correction() * std::sqrt(reach_); }

 private:
  static constexpr std::uint64_t kRemembered = 4096;
  std::uint64_t steps_ = 0;
  double square_share_ = 1, reach_ = 0;
};

}  // namespace truemax
