// SPDX-License-Identifier: Apache-2.0
//
// CalibrateOnQuestions: FreeKV's threshold at which a model corrects as many heads over questions
// as trained models do at the published one (calibrate_threshold.h).
#ifndef QUIRE_BENCH_ANSWERS_ANSWERS_CALIBRATION_H_
#define QUIRE_BENCH_ANSWERS_ANSWERS_CALIBRATION_H_

#include <span>

#include "apps/kit/local_worker.h"
#include "bench/answers/question_sets.h"
#include "client/client.h"
#include "common/base/status.h"

namespace quire::bench {

/// The threshold at which about kCorrectedShare of the KV heads are corrected while the first few
/// questions of every set are asked under a budget of 12.5 %. What blocks whatever the threshold is
/// does not count: first steps of sequences, and steps in which everything fits. The documents of
/// those questions are stored meanwhile.
StatusOr<float> CalibrateOnQuestions(const cli::LocalWorker& local, Client& client,
                                     std::span<const AskedDocument> documents);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_ANSWERS_CALIBRATION_H_
