// SPDX-License-Identifier: Apache-2.0
#include "bench/answers/bundled_questions.h"

#include <string_view>

#include "apps/kit/documents/demo_corpus.h"

namespace quire::bench {

StatusOr<std::vector<AskedDocument>> BundledQuestions(const std::string& model_directory,
                                                      const worker::Tokenizer& tokenizer,
                                                      const SetOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const cli::DemoCorpus corpus,
                         cli::LoadDemoCorpus(model_directory + "/documents"));
  std::vector<Dossier> dossiers;
  for (const cli::DemoDocument& document : corpus.documents) {
    dossiers.push_back(TakeApart(document.name, document.text, [&](std::string_view text) {
      return (*tokenizer.Encode(text)).size();
    }));
  }
  return MakeQuestionSets(dossiers, options);
}

}  // namespace quire::bench
