// SPDX-License-Identifier: Apache-2.0
// Particle swarm: each particle is drawn to the best place that it has been to and to the best
// place of all. It keeps some of its speed. Source: Kennedy, Eberhart, "Particle swarm
// optimization", ICNN 1995, with the constriction of Clerc, Kennedy, IEEE Transactions on
// Evolutionary Computation, 2002.
#include <cmath>
#include <unordered_map>

#include "tuner/strategies/digit_search.h"

namespace tune {
namespace {

constexpr size_t kParticles = 20;
constexpr double kInertia = 0.7298;
constexpr double kPull = 1.49618;

struct Particle {
  std::vector<double> place;  // in digits
  std::vector<double> speed;
  std::vector<uint16_t> best;
  double best_cost = 0;
};

class ParticleSwarm : public DigitSearch {
 public:
  explicit ParticleSwarm(const StrategyInput& input) : DigitSearch(input) {}

 private:
  std::optional<uint64_t> Propose() override {
    moving_.reset();
    if (particles_.size() < kParticles) return std::nullopt;
    const size_t moved = next_++ % kParticles;
    Particle& particle = particles_[moved];
    const Particle& leader = *std::min_element(
        particles_.begin(), particles_.end(),
        [](const Particle& a, const Particle& b) { return a.best_cost < b.best_cost; });
    std::vector<int64_t> digits;
    for (size_t i = 0; i < particle.place.size(); ++i) {
      const auto last = static_cast<double>(space().radix(i) - 1);
      double& speed = particle.speed[i];
      speed = kInertia * speed +
              kPull * random().Uniform() * (particle.best[i] - particle.place[i]) +
              kPull * random().Uniform() * (leader.best[i] - particle.place[i]);
      speed = std::clamp(speed, -last, last);
      particle.place[i] = std::clamp(particle.place[i] + speed, 0.0, last);
      digits.push_back(std::lround(particle.place[i]));
    }
    moving_ = moved;
    return Repair(std::move(digits));
  }

  void Asked(uint64_t index) override {
    if (moving_.has_value()) moved_[index] = *moving_;
    moving_.reset();
  }

  void Learned(const Observation& observation) override {
    const double cost = CostOf(observation);
    if (particles_.size() < kParticles) {
      AddParticle(observation.index, cost);
      return;
    }
    const auto moved = moved_.find(observation.index);
    if (moved == moved_.end()) return;
    Particle& particle = particles_[moved->second];
    moved_.erase(moved);
    if (cost >= particle.best_cost) return;
    particle.best_cost = cost;
    particle.best = Digits(observation.index);
  }

  void AddParticle(uint64_t index, double cost) {
    Particle particle;
    particle.best = Digits(index);
    particle.best_cost = cost;
    for (size_t i = 0; i < particle.best.size(); ++i) {
      const auto last = static_cast<double>(space().radix(i) - 1);
      particle.place.push_back(particle.best[i]);
      particle.speed.push_back((random().Uniform() - 0.5) * last * 0.5);
    }
    particles_.push_back(std::move(particle));
  }

  std::vector<Particle> particles_;
  size_t next_ = 0;
  std::optional<size_t> moving_;                // by what is being proposed
  std::unordered_map<uint64_t, size_t> moved_;  // by config in flight
};

}  // namespace

std::unique_ptr<Strategy> MakeParticleSwarm(const StrategyInput& input) {
  return std::make_unique<ParticleSwarm>(input);
}

}  // namespace tune
