// A plot ready to be drawn: what the text and the SVG share.
#pragma once

#include <string>
#include <vector>

#include "report/plot.hpp"

namespace truemax {

struct DrawnPlot {
  explicit DrawnPlot(const Plot& plot);

  PlotAxis x, y;
  // Of each line its pieces: a point that cannot be drawn breaks a line. Coordinates from 0 to 1.
  std::vector<std::vector<std::vector<PlotPoint>>> lines;

 private:
  static std::vector<double> values(const Plot& plot, double PlotPoint::*of);
};

// "3 points not drawn: no finite number", or nothing.
std::string left_out_text(const Plot& plot);

}  // namespace truemax
