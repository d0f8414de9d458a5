// The kernels of a layer in their order, over CUDA (cuda/layer.cu) or over the CPU (cuda/layer_test.cpp).
// Launcher has  launch(kernel, blocks, threads, shared bytes)  and  processors(). The products between the
// calls are the caller's.
//
//   DrawClasses  only of very many draws
//   TakeRows   draws classes and copies their weights; for each row: checks, copies, the score of its label,
//              and what u keeps
//   a product  scores = x_copy drawn_w^T
//   Estimate   the slot of each label; u, losses and p of each row
//              (both in one kernel where cuda/layer_scores.cu can)
//
//   ScaleRows  only if rows differ in the gradient of their loss: p times that, relative to the largest;
//              then NumberLabels, if there is a ring of labels
//   products   gradient = p^T x_copy;  dx = p drawn_w (in one kernel where cuda/layer_products.cu can)
//   Columns    only of long rows: sums over columns
//   Move       moments, W, b; the label's part of dx; u, the ring of labels, the sums over columns and the
//              counters
//   KeepLabels only if another step comes between forward and backward
#pragma once

#include <algorithm>
#include <cmath>

#include "cuda/layer_columns.hpp"
#include "cuda/layer_estimate.hpp"
#include "cuda/layer_move.hpp"
#include "cuda/layer_scores.hpp"
#include "cuda/layer_take.hpp"

namespace truemax::cuda {

template <class Launcher>
class LayerRun {
 public:
  LayerRun(const LayerCall& call, Launcher& launcher) : call_(call), launcher_(launcher) {}

  // Up to the product of scores.
  void take() {
    by_type(call_.x_type, [&](auto x) {
      by_type(call_.weight_type, [&](auto w) {
        by_type(call_.copy_type, [&](auto c) {
          by_width([&](auto wide) { take_as<decltype(x), decltype(w), decltype(c), wide.value>(); });
        });
      });
    });
  }
  // The product of scores and estimate(), if one kernel does both on this machine: false if not.
  bool score() { return packed() != 0 && launcher_.score(ScoredRows{call_, shift(), 1}); }
  void estimate() {
    if (call_.score_type == NumberType::bfloat16)
      estimate_as<Bfloat16, Bfloat16>();
    else
      by_type(call_.copy_type, [&](auto p) { estimate_as<float, decltype(p)>(); });
  }
  // Before the products of backward, if the reduction is none.
  void scale() {
    by_type(call_.copy_type, [&](auto p) {
      using P = decltype(p);
      launcher_.launch(ScaleRows<P>{call_}, some_blocks(call_.rows, kWarps), kThreads,
                       ScaleRows<P>::shared_bytes(kThreads));
    });
    sum_columns();
    if (call_.recent_size > 0)
      launcher_.launch(NumberLabels{call_}, 1, kMany, NumberLabels::shared_bytes(kMany));
  }
  // Both products of backward, if a kernel does them on this machine: false if not.
  bool multiply(LayerCall& call) { return launcher_.multiply(call); }
  // Before another call changes the weights.
  void keep() {
    by_type(call_.copy_type, [&](auto c) {
      by_width([&](auto wide) {
        launcher_.launch(KeepLabels<decltype(c), wide.value>{call_}, some_blocks(call_.rows, kWarps),
                         kThreads, 0);
      });
    });
  }
  // After both products.
  void move() {
    by_type(call_.weight_type, [&](auto w) {
      by_type(call_.copy_type, [&](auto c) {
        by_width([&](auto wide) {
          if (call_.dx_type == NumberType::bfloat16)
            move_as<decltype(w), decltype(c), Bfloat16, wide.value>();
          else
            move_as<decltype(w), decltype(c), float, wide.value>();
        });
      });
    });
  }

 private:
  static constexpr std::uint32_t kThreads = 256, kWarps = kThreads / 32, kMany = 512;
  static constexpr std::uint64_t kPack = 8;
  template <int kValue>
  struct Width {
    static constexpr int value = kValue;
  };

  template <class Take>
  static void by_type(NumberType type, const Take& take) {
    if (type == NumberType::bfloat16)
      take(Bfloat16{});
    else
      take(float{});
  }
  float shift() const {  // unused if rho is infinite
    return static_cast<float>(std::log(call_.rho / (1 + call_.rho)));
  }
  // All rows begin at multiples of eight numbers.
  std::uint32_t packed() const {
    const auto fits = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
    return call_.features % kPack == 0 && call_.x_stride % kPack == 0 && call_.weight_stride % kPack == 0 &&
                   fits(call_.x) && fits(call_.weight) && fits(call_.dx)
               ? 1
               : 0;
  }
  // Eight numbers at a time if they do.
  template <class Take>
  void by_width(const Take& take) {
    if (packed() != 0)
      take(Width<kPack>{});
    else
      take(Width<1>{});
  }
  std::uint32_t some_blocks(std::uint64_t count, std::uint64_t of_block, std::uint64_t each = 8) const {
    const std::uint64_t wanted = (count + of_block - 1) / of_block;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, 1, launcher_.processors() * each));
  }

  // At most `each` blocks for a processor, of which all take as many turns.
  std::uint32_t even_blocks(std::uint64_t count, std::uint64_t of_block, std::uint64_t each) const {
    const std::uint64_t wanted = (count + of_block - 1) / of_block, most = launcher_.processors() * each;
    const std::uint64_t turns = std::max<std::uint64_t>(1, (wanted + most - 1) / most);
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (wanted + turns - 1) / turns));
  }

  // Of that many warps, each of which takes at most 32 rows.
  std::uint32_t blocks_of_rows(std::uint64_t warps, std::uint64_t each) const {
    const auto least = static_cast<std::uint32_t>((call_.rows + 32 * warps - 1) / (32 * warps));
    return std::max(least, even_blocks(call_.rows, warps, each));
  }

  // Threads of Columns that take a row of the matrix together.
  std::uint32_t threads_of_row(int wide) const {
    std::uint32_t threads = 32;
    while (threads < kMany && threads * static_cast<std::uint64_t>(wide) < call_.features) threads *= 2;
    return threads;
  }
  std::uint32_t strip_blocks(int wide, std::uint32_t of_row, std::uint64_t rows, std::uint64_t each) const {
    const std::uint64_t width = std::uint64_t{of_row} * static_cast<std::uint64_t>(wide);
    const std::uint64_t strips = (call_.features + width - 1) / width, groups = kMany / of_row;
    const std::uint64_t parts = (rows + groups - 1) / groups;
    const std::uint64_t most = std::max<std::uint64_t>(1, launcher_.processors() * each / strips);
    return static_cast<std::uint32_t>(strips * std::min(parts, most));
  }

  template <class C, int kWide>
  void add_columns_up() {
    using Kernel = Columns<C, kWide>;
    const std::uint32_t of_row = threads_of_row(kWide);
    launcher_.launch(Kernel{call_, of_row}, strip_blocks(kWide, of_row, std::max(call_.rows, call_.slots), 2),
                     kMany, Kernel::shared_bytes(kMany));
  }

  // With packs of 16 bytes of the weights, threads that are neighbours read neighbours.
  template <class W, int kWide>
  static constexpr int kOfWeights = kWide == 1       ? 1
                                    : sizeof(W) == 4 ? 4
                                                     : 8;

  template <class X, class W, class C, int kWide>
  void take_as() {
    using Kernel = TakeRows<X, W, C, kOfWeights<W, kWide>>;
    if (call_.draw != CallDraw::all && !Kernel::draws_here(call_))
      launcher_.launch(DrawClasses{call_}, 1, kMany, 0);
    const std::uint32_t drawn = some_blocks(call_.slots, kWarps), of_u = some_blocks(call_.rows, kThreads);
    launcher_.launch(Kernel{call_, drawn, of_u},
                     drawn + of_u + even_blocks(call_.rows, kWarps, Kernel::kLeastBlocks - 1) + 1, kThreads,
                     Kernel::shared_bytes(call_));
  }

  template <class S, class P>
  void estimate_as() {
    if (call_.slots <= Estimate<S, P, 1>::kMostHeld) return estimate_held<S, P, 1>();
    if (call_.slots <= Estimate<S, P, 2>::kMostHeld) return estimate_held<S, P, 2>();
    if (call_.slots <= Estimate<S, P, 4>::kMostHeld) return estimate_held<S, P, 4>();
    estimate_held<S, P, 0>();
    add_columns<P>();
  }
  template <class S, class P, int kHeld>
  void estimate_held() {
    using Kernel = Estimate<S, P, kHeld>;
    const std::uint32_t blocks = blocks_of_rows(Kernel::kMostThreads / 32, Kernel::kLeastBlocks) +
                                 (Kernel::numbers_labels(call_) ? 1 : 0);
    launcher_.launch(Kernel{{call_, shift(), packed()}}, blocks, Kernel::kMostThreads,
                     Kernel::shared_bytes(Kernel::kMostThreads));
  }

  void sum_columns() {
    if (call_.bias == nullptr) return;
    launcher_.launch(ClearColumns{call_}, some_blocks(call_.slots, kThreads), kThreads, 0);
    by_type(call_.copy_type, [&](auto p) { add_columns<decltype(p)>(); });
  }
  template <class P>
  void add_columns() {
    if (call_.bias == nullptr) return;
    using Kernel = SumColumns<P>;
    launcher_.launch(Kernel{call_},
                     some_blocks(call_.slots * call_.rows, Kernel::kWide * Kernel::kRows * kThreads),
                     kThreads, 0);
  }

  template <class W, class C, class X, int kPacked>
  void move_as() {
    constexpr int kWide = kOfWeights<W, kPacked>;
    const std::uint64_t packs = (call_.features + 32 * kWide - 1) / (32 * kWide);
    if (kWide == 1 || packs > 4) {
      add_columns_up<C, kPacked>();
      return move_held<W, C, X, kWide, 0, false>();
    }
    if (packs == 1) return move_held<W, C, X, kWide, 1, false>();
    if (packs == 2) return move_held<W, C, X, kWide, 2, false>();
    if (call_.features == 4 * 32 * kWide) return move_held<W, C, X, kWide, 4, true>();
    move_held<W, C, X, kWide, 4, false>();
  }
  template <class W, class C, class X, int kWide, int kHeld, bool kFull>
  void move_held() {
    constexpr int kKept = kWide == 1 ? 0 : kHeld;
    using Kernel = Move<W, C, X, kWide, kKept, kFull && kKept != 0>;
    launcher_.launch(Kernel{call_},
                     even_blocks(call_.slots + call_.rows, Kernel::kMostThreads / 32, Kernel::kLeastBlocks),
                     Kernel::kMostThreads, Kernel::shared_bytes(call_));
  }

  const LayerCall& call_;
  Launcher& launcher_;
};

}  // namespace truemax::cuda
