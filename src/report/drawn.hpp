// A plot ready to be drawn, as text or as SVG.
#pragma once

#include <string>
#include <vector>

#include "report/plot.hpp"

namespace truemax {

struct DrawnPlot {
  explicit DrawnPlot(const Plot& plot);

  PlotAxis x, y;
  // The pieces of each line, in coordinates from 0 to 1. A point that cannot be drawn breaks a line.
  std::vector<std::vector<std::vector<PlotPoint>>> lines;

 private:
  static std::vector<double> values(const Plot& plot, double PlotPoint::*of);
};

// "3 points not drawn: not finite", or nothing.
std::string left_out_text(const Plot& plot);

}  // namespace truemax
