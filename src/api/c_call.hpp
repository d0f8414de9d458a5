// Shared by the functions of the C interface. No exception leaves one: call() turns it into a status and a
// message.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "core/error.hpp"
#include "core/memory_budget.hpp"
#include "core/message.hpp"
#include "truemax/c.h"

namespace truemax::api {

inline constexpr const char* kNullArgument =
    "an argument is NULL; pass a handle, a text or a place for the result";

// Runs the work of a C function.
template <class Work>
tmx_status call(const Work& work) noexcept {
  const auto failed = [](tmx_status status, const char* text) {
    try {
      keep_message(text);
    } catch (...) {  // there is no memory for a message either: the status says enough
      return TMX_NO_MEMORY;
    }
    return status;
  };
  try {
    keep_message("");
    work();
    keep_message("");  // calls from a callback may have left one
    return TMX_OK;
  } catch (const UserError& error) {
    return failed(TMX_BAD_INPUT, error.what());
  } catch (const DivergenceError& error) {
    return failed(TMX_DIVERGED, error.what());
  } catch (const OverBudget&) {
    return failed(TMX_NO_MEMORY, "not enough memory; give fewer rows or features, or raise memory-limit");
  } catch (const std::bad_alloc&) {
    return failed(TMX_NO_MEMORY, "not enough memory; give fewer rows or features");
  } catch (const std::length_error&) {
    return failed(TMX_NO_MEMORY,
                  "not enough memory: an array would be longer than possible; give fewer rows");
  } catch (const std::exception& error) {
    return failed(TMX_INTERNAL, error.what());
  }
}

// Throws if a pointer is null.
template <class... Pointers>
void require(const Pointers*... pointers) {
  const bool missing = ((pointers == nullptr) || ...);
  if (missing) throw UserError(kNullArgument);
}

// Throws if an array for `there` numbers is too small for rows x columns.
inline void require_room(std::uint64_t there, std::uint64_t rows, std::uint64_t columns) {
  if (columns != 0 && rows > there / columns)
    throw UserError("the array for the result has room for " + std::to_string(there) + " numbers, not for " +
                    std::to_string(rows) + " x " + std::to_string(columns) + "; make it larger");
}

// Throws unless a struct has the size that this library knows. `name`: of the struct.
inline void require_size(std::size_t given, std::size_t wanted, const char* name) {
  if (given != wanted)
    throw UserError(std::string(name) + ".size is " + std::to_string(given) + ", not " +
                    std::to_string(wanted) + "; set it to sizeof(" + name +
                    "), and use the header of this library");
}

}  // namespace truemax::api
