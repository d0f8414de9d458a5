// The table of methods. A new method is one file in this folder and one entry here.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "rule/adam.hpp"
#include "rule/composition.hpp"
#include "rule/exact.hpp"
#include "rule/implicit.hpp"
#include "rule/importance.hpp"
#include "rule/lbfgs.hpp"
#include "rule/noise_contrast.hpp"
#include "rule/one_vs_each.hpp"
#include "rule/prox.hpp"
#include "rule/raman.hpp"
#include "rule/scent.hpp"
#include "rule/softplus.hpp"
#include "rule/sox.hpp"
#include "rule/umax.hpp"
#include "rule/vanilla.hpp"

namespace truemax {

using Methods = std::tuple<ImplicitRule, ProxRule, ScentRule, UmaxRule, VanillaRule, RamanRule,
                           CompositionRule, SoxRule, OneVsEachRule, NoiseContrastRule, ImportanceRule,
                           SoftplusRule, ExactRule, AdamRule, LbfgsRule>;

inline constexpr std::size_t kMethodCount = std::tuple_size_v<Methods>;

// Calls visit.template operator()<R>() for every rule of the table.
template <class Visit>
void for_each_method(Visit&& visit) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (visit.template operator()<std::tuple_element_t<i, Methods>>(), ...);
  }
  (std::make_index_sequence<kMethodCount>());
}

// All rules keep the contract of rule.hpp.
template <class List>
inline constexpr bool kAllRules = false;
template <Rule... R>
inline constexpr bool kAllRules<std::tuple<R...>> = true;
static_assert(kAllRules<Methods>);

inline std::array<const MethodInfo*, kMethodCount> methods() {
  std::array<const MethodInfo*, kMethodCount> list{};
  std::size_t at = 0;
  for_each_method([&]<class R>() { list[at++] = &R::kInfo; });
  return list;
}

// Another name for a method, with some of its options fixed.
struct MethodAlias {
  std::string_view name, of;
  std::string_view description;
  void (*set)(RuleOptions& options);
};
inline constexpr std::array<MethodAlias, 1> kMethodAliases{
    {{"bsgd", "importance", "Mini-batch log-sum-exp (BSGD): importance, always with --log-q.",
      [](RuleOptions& options) { options.log_q = true; }}}};

// Null if the name is not an alias.
inline const MethodAlias* find_alias(std::string_view name) {
  for (const MethodAlias& alias : kMethodAliases)
    if (alias.name == name) return &alias;
  return nullptr;
}

// The method with this name or alias.
inline const MethodInfo& find_method(std::string_view name) {
  const MethodAlias* alias = find_alias(name);
  if (alias != nullptr) name = alias->of;
  for (const MethodInfo* info : methods())
    if (info->name == name) return *info;
  throw UserError("--method " + std::string(name) +
                  ": there is no such method; 'truemax methods' lists them");
}

// The options for the rule with this name or alias, with those that an alias fixes.
inline RuleOptions rule_options(std::string_view name, RuleOptions options) {
  if (const MethodAlias* alias = find_alias(name)) alias->set(options);
  return options;
}

}  // namespace truemax
