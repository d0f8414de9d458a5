// CMake compiles precompiled.hpp for this file; all rooms use the result.
