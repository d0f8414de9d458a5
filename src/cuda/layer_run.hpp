// The kernels of a layer in their order, over CUDA (cuda/layer.cu) or over the CPU (cuda/layer_test.cpp).
// Launcher has  launch(kernel, blocks, threads, shared bytes)  and  processors(). The products between the
// calls are the caller's.
#pragma once

#include <algorithm>

#include "cuda/layer_backward.hpp"
#include "cuda/layer_forward.hpp"

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
  }
  // After them.
  void move() {
    by_type(call_.copy_type, [&](auto c) {
      by_type(call_.dx_type, [&](auto x) {
        by_width([&](auto wide) {
          constexpr int kWide = wide.value == 1 ? 1 : 4;
          using Kernel = AddLabels<decltype(c), decltype(x), kWide>;
          std::uint32_t of_row = 32;
          while (of_row < kThreads && of_row * kWide < call_.features) of_row *= 2;
          const std::uint64_t strips = (call_.features + of_row * kWide - 1) / (of_row * kWide);
          const std::uint64_t parts = (call_.rows + 2 * kThreads / of_row - 1) / (2 * kThreads / of_row);
          const std::uint64_t most = 2 * launcher_.processors();
          const std::uint64_t blocks = strips * std::min(parts, std::max<std::uint64_t>(1, most / strips));
          launcher_.launch(Kernel{call_, of_row}, static_cast<std::uint32_t>(blocks), 2 * kThreads,
                           Kernel::shared_bytes(of_row));
        });
      });
    });
    launcher_.launch(Columns{call_},
                     1 + some_blocks(call_.slots + call_.rows, Columns::kSlots), kThreads,
                     Columns::shared_bytes(kThreads));
    by_type(call_.weight_type, [&](auto w) {
      by_type(call_.copy_type, [&](auto c) {
        by_width([&](auto wide) { move_as<decltype(w), decltype(c), wide.value>(); });
      });
    });
  }

 private:
  static constexpr std::uint32_t kThreads = 256, kWarps = kThreads / 32;
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
  // Eight numbers at a time if all rows begin at multiples of eight.
  template <class Take>
  void by_width(const Take& take) {
    const auto fits = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
    if (call_.features % kPack == 0 && call_.x_stride % kPack == 0 && call_.weight_stride % kPack == 0 &&
        fits(call_.x) && fits(call_.weight) && fits(call_.dx))
      take(Width<kPack>{});
    else
      take(Width<1>{});
  }
  std::uint32_t some_blocks(std::uint64_t count, std::uint64_t of_block, std::uint64_t each = 8) const {
    const std::uint64_t wanted = (count + of_block - 1) / of_block;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, 1, launcher_.processors() * each));
  }

  template <class X, class W, class C, int kWide>
  void take_as() {
    launcher_.launch(TakeRows<X, W, C, kWide>{call_}, 1 + some_blocks(call_.rows, kWarps), kThreads, 0);
    const std::uint32_t gathers = some_blocks(call_.slots, kWarps);
    launcher_.launch(TakeDrawn<W, C, kWide>{call_, gathers}, gathers + some_blocks(call_.rows, kThreads),
                     kThreads, 0);
  }

  template <class S, class P>
  void estimate_as() {
    constexpr int kHeld = 4;
    constexpr std::uint32_t kMany = 512;
    if (call_.slots <= Estimate<S, P, kHeld>::kMostHeld) {
      using Kernel = Estimate<S, P, kHeld>;
      launcher_.launch(Kernel{call_}, some_blocks(call_.rows, kMany / 32, 1), kMany,
                       Kernel::shared_bytes(kMany, call_.slots));
    } else {
      using Kernel = Estimate<S, P, 0>;
      launcher_.launch(Kernel{call_}, some_blocks(call_.rows, kMany / 32, 4), kMany,
                       Kernel::shared_bytes(kMany, call_.slots));
      add_columns<P>();
    }
  }

  void sum_columns() {
    if (call_.bias == nullptr) return;
    launcher_.launch(ClearColumns{call_}, some_blocks(call_.slots, kThreads), kThreads, 0);
    by_type(call_.copy_type, [&](auto p) { add_columns<decltype(p)>(); });
  }
  template <class P>
  void add_columns() {
    if (call_.bias == nullptr) return;
    const std::uint64_t strips = (call_.slots + kThreads - 1) / kThreads;
    launcher_.launch(SumColumns<P>{call_}, some_blocks(strips * call_.rows, SumColumns<P>::kRows), kThreads, 0);
  }

  template <class W, class C, int kWide>
  void move_as() {
    const std::uint64_t packs = (call_.features + 32 * kPack - 1) / (32 * kPack);
    if (kWide == 1 || packs > 4) return move_held<W, C, kWide, 0>();
    if (packs == 1) return move_held<W, C, kWide, 1>();
    if (packs == 2) return move_held<W, C, kWide, 2>();
    move_held<W, C, kWide, 4>();
  }
  template <class W, class C, int kWide, int kHeld>
  void move_held() {
    constexpr int kKept = kWide == 1 ? 0 : kHeld;
    const auto classes = static_cast<std::uint32_t>((call_.slots + call_.rows + kWarps - 1) / kWarps);
    launcher_.launch(Move<W, C, kWide, kKept>{call_, classes}, classes + some_blocks(call_.rows, kThreads),
                     kThreads, 0);
  }

  const LayerCall& call_;
  Launcher& launcher_;
};

}  // namespace truemax::cuda
