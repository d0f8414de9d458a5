// Plain text as a data set: each word is the label of the words before it, or around it. The words before the
// text, and those missing after it, are line ends. For skip-gram each word is a row whose labels are the
// words around it, and the text ends where it ends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/raw_rows.hpp"

namespace truemax {

// Training text: words below --min-count, and words that later texts have in addition, are <unk>. Features
// and classes have the same numbers. Throws UserError.
Dataset make_text_set(RawRows&& raw, const PreprocessOptions& options, const std::string& class_weights);

// Text to evaluate a model on: unknown words are <unk>, as words to predict too, and are counted.
Dataset text_of_model(RawRows&& raw, std::shared_ptr<const ClassList> classes,
                      std::shared_ptr<const FeatureSpace> space, std::vector<double> class_weight);

// Each line of the text is a row: its last words, from which the next one is predicted.
Dataset prompts_of_model(RawRows&& raw, std::shared_ptr<const ClassList> classes,
                         std::shared_ptr<const FeatureSpace> space);

// Refuses options of plain text for data of another format.
void require_no_text_options(const PreprocessOptions& options, const RawRows& raw);

}  // namespace truemax
