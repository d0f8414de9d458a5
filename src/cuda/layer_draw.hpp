// The draws of layer/layer.cpp on the GPU.
#pragma once

#include "core/random.hpp"
#include "cuda/layer_parts.hpp"

namespace truemax::cuda {

// The classes of a step, a function of the steps so far. A block of threads finds them in memory that it
// shares; every block that needs some of them finds all, so that none waits for another.
struct Draws {
  const LayerCall& call;
  std::int32_t* number;  // [drawn]: as they were drawn
  std::uint32_t* times;  // [drawn]: how often, at the first draw of a class
  std::uint32_t* table;  // by hash: the first draw of each number
  std::uint32_t mask;

  static constexpr std::uint64_t kMostAtOnce = 2048;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  TRUEMAX_HOST_DEVICE static std::uint32_t table_size(std::uint64_t drawn) {
    std::uint32_t size = 32;
    while (size < 2 * drawn) size *= 2;
    return size;
  }
  TRUEMAX_HOST_DEVICE static std::size_t words(std::uint64_t drawn) { return 2 * drawn + table_size(drawn); }

  TRUEMAX_KERNEL Draws(const LayerCall& of, void* memory)
      : call(of),
        number(static_cast<std::int32_t*>(memory)),
        times(static_cast<std::uint32_t*>(memory) + of.drawn),
        table(times + of.drawn),
        mask(table_size(of.drawn) - 1) {}

  TRUEMAX_KERNEL void prepare(const Thread& t) const {
    for (std::uint32_t h = t.number(); h <= mask; h += t.threads()) table[h] = kNone;
    const bool pairs = call.draw == CallDraw::recent;
    const std::uint64_t needed = pairs ? 2 * call.drawn : call.drawn, blocks = (needed + 3) / 4;
    const CounterRandom random(static_cast<std::uint64_t>(call.counters[2]), Stream::draw, 0);
    const std::uint64_t begin = static_cast<std::uint64_t>(call.counters[0]) * blocks;
    for (std::uint64_t q = t.number(); q < blocks; q += t.threads()) {
      const CounterRandom::Block b = random.at(begin + q);
      if (pairs) {
        put(2 * q, recent(b.first, b.second));
        put(2 * q + 1, recent(b.third, b.fourth));
      } else {
        put(4 * q, single(4 * q, b.first)), put(4 * q + 1, single(4 * q + 1, b.second));
        put(4 * q + 2, single(4 * q + 2, b.third)), put(4 * q + 3, single(4 * q + 3, b.fourth));
      }
    }
    t.sync();
    for (std::uint64_t j = t.number(); j < call.drawn; j += t.threads())
      if (number[j] >= 0) insert(static_cast<std::uint32_t>(j));
    t.sync();
    if (call.draw == CallDraw::uniform) return;
    for (std::uint64_t j = t.number(); j < call.drawn; j += t.threads())
      if (number[j] >= 0) count(times + first_of(static_cast<std::uint64_t>(number[j])));
    t.sync();
  }

  // The class of slot j, or -1 if it is empty.
  TRUEMAX_KERNEL std::int32_t class_of(std::uint64_t j) const {
    if (call.draw == CallDraw::uniform) return replaced(j) ? static_cast<std::int32_t>(last(j)) : number[j];
    if (number[j] < 0 || first_of(static_cast<std::uint64_t>(number[j])) != j) return -1;
    return number[j];
  }
  // The log of its weight, times/(draws q).
  TRUEMAX_KERNEL float log_weight(std::uint64_t j, std::int32_t k) const {
    const auto draws = static_cast<double>(call.drawn), classes = static_cast<double>(call.classes);
    if (call.draw == CallDraw::uniform) return static_cast<float>(log(classes / draws));
    double q = 0;
    if (call.draw == CallDraw::counts) {
      q = call.probability[k];
    } else {
      const double uniform = uniform_share();
      q = uniform / classes;
      if (held() > 0) q += (1 - uniform) * larger(call.recent_count[k], 0) / static_cast<double>(held());
    }
    return static_cast<float>(log(static_cast<double>(read(times + j)) / (draws * q)));
  }

 private:
  template <class T>
  TRUEMAX_KERNEL static T read(const T* from) {  // after others have changed it
    return *static_cast<const volatile T*>(from);
  }
  TRUEMAX_KERNEL std::uint64_t held() const {
    const auto seen = static_cast<std::uint64_t>(call.counters[1]);
    return seen < call.recent_size ? seen : call.recent_size;
  }
  TRUEMAX_KERNEL double uniform_share() const { return held() == 0 ? 1 : kLayerUniformShare; }

  TRUEMAX_KERNEL void put(std::uint64_t j, std::int32_t k) const {
    if (j < call.drawn) number[j] = k, times[j] = 0;
  }
  TRUEMAX_KERNEL std::int32_t single(std::uint64_t j, std::uint64_t word) const {
    if (call.draw == CallDraw::uniform) return static_cast<std::int32_t>(uniform_below(word, last(j) + 1));
    return static_cast<std::int32_t>(AliasTable::pick(call.cells, call.classes, word));
  }
  TRUEMAX_KERNEL std::int32_t recent(std::uint64_t kind, std::uint64_t place) const {
    if (uniform_unit(kind) < uniform_share())
      return static_cast<std::int32_t>(uniform_below(place, call.classes));
    const std::int32_t k = call.recent[uniform_below(place, held())];
    if (k >= 0 && static_cast<std::uint64_t>(k) < call.classes && call.recent_count[k] >= 1) return k;
    report(call, Fault::ring, 0, k, 0);
    return -1;
  }

  TRUEMAX_KERNEL std::uint32_t hash(std::uint64_t k) const {
    return (static_cast<std::uint32_t>(k) * 0x9E3779B1U >> 8U) & mask;
  }
  TRUEMAX_KERNEL void insert(std::uint32_t j) const {
    for (std::uint32_t h = hash(static_cast<std::uint64_t>(number[j]));; h = (h + 1) & mask) {
      const std::uint32_t there = put_if(table + h, kNone, j);
      if (there == kNone) return;
      if (number[there] != number[j]) continue;
      lower(table + h, j);
      return;
    }
  }
  // kNone: nobody drew it.
  TRUEMAX_KERNEL std::uint32_t first_of(std::uint64_t k) const {
    for (std::uint32_t h = hash(k);; h = (h + 1) & mask) {
      const std::uint32_t there = read(table + h);
      if (there == kNone || number[there] == static_cast<std::int32_t>(k)) return there;
    }
  }

  // Floyd's method: if the number of draw j is there already, it is `last(j)` instead, which no draw before j
  // can have. It is there if an earlier draw has the same number, or if it is the `last` of an earlier draw
  // that was replaced.
  TRUEMAX_KERNEL std::uint64_t last(std::uint64_t j) const { return call.classes - call.drawn + j; }
  TRUEMAX_KERNEL bool replaced(std::uint64_t j) const {
    for (;;) {
      const auto k = static_cast<std::uint64_t>(number[j]);
      if (first_of(k) < j) return true;
      if (k < last(0) || k - last(0) >= j) return false;
      j = k - last(0);
    }
  }
};

// More draws than shared memory holds, by one block of threads.
struct DrawClasses {
  LayerCall call;

  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const Draws draws(call, call.draws);
    draws.prepare(t);
    for (std::uint64_t j = t.number(); j < call.drawn; j += t.threads()) {
      const std::int32_t k = draws.class_of(j);
      call.drawn_class[j] = k;
      call.offset[j] = k < 0 ? 0 : draws.log_weight(j, k);
    }
  }
};

}  // namespace truemax::cuda
