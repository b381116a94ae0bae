// SPDX-License-Identifier: Apache-2.0
// must: end
#define J(a, b) a##b
#define A(x) J(x, x)
int J(a_very_long_name_of_a_variable_, of_the_kernel) = 1;
template <class... T> struct Name { using type = Name<Name<T..., T...>, Name<T..., T...>>; };
template <int N, class T> struct Longer {
  using type = typename Longer<N - 1, typename T::type>::type;
};
template <class T> struct Longer<0, T> { using type = T; };
template <class T> __attribute__((used)) void Called(T) {}
void call() { Called(typename Longer<22, Name<int>>::type{}); }
