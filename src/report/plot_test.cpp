#include "report/plot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include "report/table.hpp"

namespace truemax {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();

Plot plot_of(std::vector<PlotPoint> points, bool log_x = false, bool log_y = false) {
  return {"title",          "seconds", "log-loss", log_x, log_y, std::numeric_limits<double>::max(),
          {{"one", points}}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size()))
    ++count;
  return count;
}

// Every tag is closed by its own name, and no coordinate is NaN or infinite.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/'));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  for (const char* bad : {"nan", "inf\"", "inf,", "inf "}) EXPECT_EQ(svg.find(bad), std::string::npos) << bad;
}

TEST(PlotText, MatchesAGoldenPlot) {
  EXPECT_EQ(plot_text(plot_of({{0, 0}, {5, 10}, {10, 10}}), 40, 6),
            "title\n"
            "log-loss\n"
            "10 +                 AAAAAAAAAAAAAAAAAAA\n"
            "   |             AAAA\n"
            " 5 +         AAAA\n"
            "   |      AAA\n"
            "   |  AAAA\n"
            " 0 +AA\n"
            "   +------------------------------------\n"
            "    0      2      4      6      8     10\n"
            "                                 seconds\n"
            "  A one\n");
}

TEST(PlotText, FitsItsColumns) {
  Plot plot = plot_of({{1e-9, 1e-300}, {1e12, 1e300}}, true, true);
  plot.title = std::string(200, 't');
  for (int i = 0; i < 60; ++i)
    plot.lines.push_back({"a method of a long name " + std::to_string(i), {{1, double(i + 1)}}});
  plot.lines.push_back({std::string(300, 'n'), {{1, 1}}});
  for (const std::size_t columns : {30, 80, 120}) {
    const std::vector<std::string> lines = lines_of(plot_text(plot, columns));
    std::size_t widest = 0;
    for (const std::string& line : lines) widest = std::max(widest, screen_width(line));
    EXPECT_EQ(widest, columns);
  }
}

TEST(PlotText, PowerLawIsStraightOnLogAxes) {
  // y = x^2 is straight if both axes are logarithmic, so the middle point is in the middle.
  const std::vector<std::string> lines =
      lines_of(plot_text(plot_of({{1, 1}, {10, 100}, {100, 1e4}}, true, true), 80, 17));
  const std::size_t first = lines[2].find('A'), last = lines[18].find('A'), middle = lines[10].find('A');
  ASSERT_NE(middle, std::string::npos);
  EXPECT_NEAR(double(lines[2].rfind('A') + last) / 2, double(middle), 3);
  EXPECT_GT(first, last);
}

TEST(PlotText, CountsPointsThatCannotBeDrawn) {
  Plot plot = plot_of({{1, 1}, {2, kNan}, {kInfinity, 3}, {3, -kInfinity}, {4, 2}});
  EXPECT_EQ(left_out(plot), 3U);
  EXPECT_NE(plot_text(plot).find("3 points not drawn: not finite\n"), std::string::npos);
  plot.log_y = true;
  plot.lines[0].points.push_back({5, 0});
  EXPECT_EQ(left_out(plot), 4U);
  EXPECT_NE(plot_text(plot).find("not above 0 on a logarithmic axis"), std::string::npos);
  plot.y_most = 1.5;
  EXPECT_EQ(left_out(plot), 5U);
  EXPECT_NE(plot_svg({&plot, 1}).find("5 points not drawn"), std::string::npos);
  EXPECT_EQ(plot_text(plot_of({{1, 1}})).find("not drawn"), std::string::npos);
}

TEST(PlotText, MissingPointBreaksTheLine) {
  const std::string whole = plot_text(plot_of({{0, 0}, {5, 0.5}, {10, 1}}));
  const std::string broken = plot_text(plot_of({{0, 0}, {5, kNan}, {10, 1}}));
  EXPECT_GT(count_of(whole, "A"), 20U);
  EXPECT_EQ(count_of(broken, "A"), 3U);  // two points and the legend
}

TEST(PlotText, HandlesDegenerateAndExtremeValues) {
  constexpr double kMost = std::numeric_limits<double>::max(),
                   kLeast = std::numeric_limits<double>::denorm_min();
  const std::vector<std::vector<PlotPoint>> cases{
      {},
      {{0, 0}},
      {{3, 7}},
      {{1, 2}, {2, 2}, {3, 2}},
      {{2, 1}, {2, 5}},
      {{1, 1}, {2, 1 + 1e-15}},
      {{-kMost, -kMost}, {kMost, kMost}},
      {{kMost, kMost}},
      {{kLeast, kLeast}},
      {{kLeast, kLeast}, {2 * kLeast, 2 * kLeast}},
      {{kLeast, kLeast}, {kMost, kMost}},
      {{1, 1e15}, {2, 1e15 + 1}},
      {{1, 0.999}, {2, 1.001}},
      {{kNan, kNan}},
  };
  for (const auto& points : cases)
    for (const bool log : {false, true})
      for (const std::size_t rows : {1, 4, 16, 60}) {
        const Plot plot = plot_of(points, log, log);
        const std::string text = plot_text(plot, 80, rows);
        const std::size_t marks = count_of(text, "A") - 1;
        EXPECT_EQ(marks > 0, left_out(plot) < points.size()) << text;
        for (const std::string& line : lines_of(text)) EXPECT_LE(screen_width(line), 80U) << text;
        EXPECT_EQ(text.find("nan"), std::string::npos) << text;
        EXPECT_EQ(text.find("inf"), std::string::npos) << text;
        const std::string svg = plot_svg({&plot, 1});
        expect_well_formed(svg);
        EXPECT_EQ(count_of(svg, "<circle"), points.size() - left_out(plot));
      }
}

TEST(PlotAxis, TicksAreRoundNumbersWithinItsEnds) {
  const auto texts = [](std::vector<double> ends, bool log) {
    std::string all;
    for (const PlotAxis::Tick& tick : PlotAxis(ends, log).ticks(5)) all += tick.text + " ";
    return all;
  };
  EXPECT_EQ(texts({0, 1}, false), "0 0.2 0.4 0.6 0.8 1 ");
  EXPECT_EQ(texts({-3, 14}, false), "0 5 10 ");
  EXPECT_EQ(texts({1e10, 1e10 + 10}, false),
            "10000000000 10000000002 10000000004 10000000006 10000000008 10000000010 ");
  EXPECT_EQ(texts({0.001, 1000}, true), "0.01 1 100 ");
  EXPECT_EQ(texts({0.3, 4}, true), "0.5 1 2 ");
  EXPECT_EQ(texts({3, 4}, true), "3 4 ");
  EXPECT_EQ(texts({3.0001, 3.0002}, true), "3.0001 3.0002 ");
}

TEST(PlotAxis, TicksAreInTheOrderOfTheirValues) {
  const std::vector<double> ends{0.02, 700};
  for (const bool log : {false, true}) {
    const PlotAxis axis(ends, log);
    EXPECT_EQ(axis.place(0.02), 0);
    EXPECT_EQ(axis.place(700), 1);
    double before = -1;
    for (const PlotAxis::Tick& tick : axis.ticks(6)) {
      EXPECT_EQ(std::stod(tick.text), tick.value);
      EXPECT_GT(axis.place(tick.value), before);
      before = axis.place(tick.value);
    }
    EXPECT_GT(before, 0.6);
  }
}

TEST(PlotSvg, OnePanelPerPlotOneLegendEntryPerLine) {
  std::vector<Plot> panels(3, plot_of({{1, 2}, {2, 1}}));
  panels[1].title = "a < b & \"c\" \x1b[31m";
  panels[1].lines.push_back({"<two>", {{1, 1}}});
  const std::string svg = plot_svg(panels);
  expect_well_formed(svg);
  EXPECT_EQ(count_of(svg, "<rect"), 3U);
  EXPECT_EQ(count_of(svg, "<polyline"), 3U);  // a single point has no line
  EXPECT_EQ(count_of(svg, "<circle"), 7U);
  EXPECT_EQ(count_of(svg, ">one</text>"), 3U);
  EXPECT_EQ(count_of(svg, ">&lt;two&gt;</text>"), 1U);
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot; \\x1b[31m"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_EQ(svg.find("href"), std::string::npos);  // self-contained
}

TEST(PlotSvg, LinesBeyondTheColoursDifferInDashes) {
  Plot plot;
  for (int i = 0; i < 20; ++i) plot.lines.push_back({std::to_string(i), {{0, double(i)}, {1, double(i)}}});
  const std::string svg = plot_svg({&plot, 1});
  std::vector<std::string> looks;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1))
    looks.push_back(svg.substr(at, svg.find("points", at) - at));
  ASSERT_EQ(looks.size(), 20U);
  std::sort(looks.begin(), looks.end());
  EXPECT_EQ(std::unique(looks.begin(), looks.end()), looks.end());
}

}  // namespace
}  // namespace truemax
