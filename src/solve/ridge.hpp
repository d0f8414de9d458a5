// Ridge in a step. The ridge divides a class by r after the update, so a step sees a problem without ridge
// whose scores and norms are those of the shrunken class. An intercept outside the ridge is not divided: it
// is a feature of value 1 in every row.
#pragma once

namespace truemax {

// r of a class with ridge weight beta in a step whose rows have the ridge `strength`.
inline double ridge_factor(double strength, double beta) {
  return 1 + strength * beta;
}

// The score at the start of a step. `inverse`: 1/r. Only for scores in float32.
inline float shrunk_score(float z, float inverse) {
  return z * inverse;
}
inline float shrunk_score(float z, float inverse, float free_intercept) {
  return (z - free_intercept) * inverse + free_intercept;
}
// In double.
inline double shrunk_score(double z, double r) {
  return z / r;
}
inline double shrunk_score(double z, double r, double free_intercept) {
  return (z - free_intercept) / r + free_intercept;
}

// How far a coefficient of the class moves the score of a row: replaces |x|^2.
inline double shrunk_norm(double squared_norm, double r, bool free_intercept) {
  const double outside = free_intercept ? 1 : 0;
  return (squared_norm - outside) / r + outside;
}

}  // namespace truemax
