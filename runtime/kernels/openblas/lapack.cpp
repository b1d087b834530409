#include "runtime/kernels/openblas/lapack.h"

#include "ir/values/error.h"
#include "ir/values/tensor.h"
#include "runtime/kernels/openblas/blas.h"
#include "runtime/kernels/openblas/not_finite.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <complex>
#include <string>
#include <tuple>

namespace tscompile::lapack {

// An integer, passed by address.
class Int {
 public:
  Int(int64_t value) : value_(static_cast<int>(value)) {  // NOLINT: implicit by design
    if (value < -1 || value > INT_MAX)
      throw ExecutionError(ErrorKind::Limit, "the matrix is too large for LAPACK: " + std::to_string(value));
  }
  const int* address() const { return &value_; }

 private:
  int value_;
};

// Scratch memory, charged to the run.
template <class T>
class Work {
 public:
  explicit Work(int64_t count) : memory_(Tensor::empty(kDTypeOf<T>, Dims{std::max<int64_t>(count, 1)})) {}
  T* data() const { return memory_.data<T>(); }
  T& operator[](int64_t i) const { return data()[i]; }

 private:
  Tensor memory_;
};

// Stands for an argument that a routine has for other types only.
struct Absent {};

namespace {

template <class T>
inline constexpr bool kIsComplex = !std::is_floating_point_v<T>;
template <class T>
inline constexpr char kPrefix = std::is_same_v<T, float>                 ? 's'
                                : std::is_same_v<T, double>              ? 'd'
                                : std::is_same_v<T, std::complex<float>> ? 'c'
                                                                         : 'z';

// ---- arguments ----

// A leading dimension is never 0.
Int leading(int64_t rows) { return std::max<int64_t>(rows, 1); }
// Instead of a size: the routine shall answer what it wants.
constexpr int64_t kAsk = -1;

template <class A>
auto passed(const A& a) {
  if constexpr (std::is_same_v<A, Absent>)
    return std::tuple<>();
  else if constexpr (std::is_same_v<A, Int>)
    return std::tuple(a.address());
  else if constexpr (std::is_same_v<A, char>)
    return std::tuple(&a);
  else
    return std::tuple(a);
}
// Fortran hides the lengths of characters at the end of the arguments.
template <class A>
auto hiddenLength(const A&) {
  if constexpr (std::is_same_v<A, char>)
    return std::tuple(size_t{1});
  else
    return std::tuple<>();
}

// ---- calls ----

template <size_t kLength>
struct Name {
  constexpr Name(const char (&name)[kLength]) { std::copy_n(name, kLength, text); }  // NOLINT: implicit by design
  char text[kLength];
};

void* find(const std::string& name) {
  void* f = blas::symbol(name.c_str());
  if (!f)
    throw ExecutionError(ErrorKind::Unsupported,
                         "factorizations of matrices need OpenBLAS (libopenblas.so.0), which is not installed");
  return f;
}

template <Name kName, class T, class Tuple>
void callWith(const Tuple& arguments) {
  std::apply(
      [](auto... p) {
        static void* f = find(kPrefix<T> + std::string(kName.text) + "_");
        reinterpret_cast<void (*)(decltype(p)...)>(f)(p...);
      },
      arguments);
}

// Calls the routine of this name for T; the info that it ends with.
template <Name kName, class T, class... Args>
int call(const Args&... args) {
  int info = 0;
  callWith<kName, T>(std::tuple_cat(passed(args)..., std::tuple(&info), hiddenLength(args)...));
  return info;
}

// What a routine answered when it was asked how much it wants; float32 may have rounded it down.
template <class T>
int64_t wanted(const T& answer) {
  auto size = static_cast<double>(std::real(answer));
  if (std::is_same_v<Real<T>, float>) size *= 1 + 1.2e-7;
  return std::max<int64_t>(static_cast<int64_t>(std::ceil(size)), 1);
}

// Calls f(work, lwork) twice: to ask for the size, then to run.
template <class T, class F>
int withWork(F&& f) {
  T answer(0);
  if (int info = f(&answer, Int(kAsk))) return info;
  Work<T> work(wanted(answer));
  return f(work.data(), Int(wanted(answer)));
}

// Matrices so small that a call of the library costs more than the work, and those that it loses NaN of.
constexpr int64_t kSmall = 8;
template <class T>
bool isForLoops(int64_t m, int64_t n, const T* a) {
  return (std::is_floating_point_v<T> && std::max(m, n) <= kSmall) || !loops::isFinite(m * n, a);
}

}  // namespace

template <class T>
int getrf(int64_t m, int64_t n, T* a, int32_t* pivots) {
  if (isForLoops(m, n, a)) return loops::factor(m, n, a, pivots);
  return call<"getrf", T>(Int(m), Int(n), a, leading(m), pivots);
}

template <class T>
int getrs(char op, int64_t n, int64_t columns, const T* lu, const int32_t* pivots, T* b) {
  if (isForLoops(n, n, lu)) {
    for (int64_t j = 0; j < columns; ++j) loops::substitute(op, n, lu, pivots, b + j * n);
    return 0;
  }
  return call<"getrs", T>(op, Int(n), Int(columns), lu, leading(n), pivots, b, leading(n));
}

template <class T>
int potrf(char uplo, int64_t n, T* a) {
  if (!loops::isFiniteTriangle(uplo, n, a)) return loops::factorCholesky(uplo, n, a);
  return call<"potrf", T>(uplo, Int(n), a, leading(n));
}

template <class T>
int potri(char uplo, int64_t n, T* a) {
  if (loops::isFiniteTriangle(uplo, n, a)) return call<"potri", T>(uplo, Int(n), a, leading(n));
  Work<T> inverse(n * n);
  return loops::invertCholesky(uplo, n, a, inverse.data());
}

template <class T>
int potrs(char uplo, int64_t n, int64_t columns, const T* a, T* b) {
  if (!loops::isFiniteTriangle(uplo, n, a)) {
    for (int64_t j = 0; j < columns; ++j) loops::substituteCholesky(uplo, n, a, b + j * n);
    return 0;
  }
  return call<"potrs", T>(uplo, Int(n), Int(columns), a, leading(n), b, leading(n));
}

template <class T>
int geqrf(int64_t m, int64_t n, T* a, T* tau) {
  if (!loops::isFinite(m * n, a)) {
    loops::factorQr(m, n, a, tau);
    return 0;
  }
  return withWork<T>(
      [&](T* work, Int lwork) { return call<"geqrf", T>(Int(m), Int(n), a, leading(m), tau, work, lwork); });
}

template <class T>
int orgqr(int64_t m, int64_t n, int64_t k, T* a, const T* tau) {
  constexpr Name kName = kIsComplex<T> ? Name("ungqr") : Name("orgqr");
  if (!loops::isFinite(m * k, a) || !loops::isFinite(k, tau)) {
    loops::makeQ(m, n, k, a, tau);
    return 0;
  }
  return withWork<T>(
      [&](T* work, Int lwork) { return call<kName, T>(Int(m), Int(n), Int(k), a, leading(m), tau, work, lwork); });
}

template <class T>
int ormqr(char side, char op, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* tau, T* c) {
  constexpr Name kName = kIsComplex<T> ? Name("unmqr") : Name("ormqr");
  return withWork<T>([&](T* work, Int lwork) {
    return call<kName, T>(side, op, Int(m), Int(n), Int(k), a, leading(lda), tau, c, leading(m), work, lwork);
  });
}

template <class T>
int sytrf(bool hermitian, int64_t n, T* a, int32_t* pivots) {
  return withWork<T>([&](T* work, Int lwork) {
    if constexpr (kIsComplex<T>)
      if (hermitian) return call<"hetrf", T>('L', Int(n), a, leading(n), pivots, work, lwork);
    return call<"sytrf", T>('L', Int(n), a, leading(n), pivots, work, lwork);
  });
}

template <class T>
int sytrs(bool hermitian, int64_t n, int64_t columns, const T* a, const int32_t* pivots, T* b) {
  if constexpr (kIsComplex<T>)
    if (hermitian) return call<"hetrs", T>('L', Int(n), Int(columns), a, leading(n), pivots, b, leading(n));
  return call<"sytrs", T>('L', Int(n), Int(columns), a, leading(n), pivots, b, leading(n));
}

template <class T>
int syevd(bool vectors, char uplo, int64_t n, T* a, Real<T>* values) {
  constexpr Name kName = kIsComplex<T> ? Name("heevd") : Name("syevd");
  auto run = [&](T* work, Int lwork, Real<T>* reals, Int realCount, int32_t* integers, Int integerCount) {
    char job = vectors ? 'V' : 'N';
    if constexpr (kIsComplex<T>)
      return call<kName, T>(job, uplo, Int(n), a, leading(n), values, work, lwork, reals, realCount, integers,
                            integerCount);
    else
      return call<kName, T>(job, uplo, Int(n), a, leading(n), values, work, lwork, integers, integerCount);
  };
  T answer(0);
  Real<T> reals = 0;
  int32_t integers = 0;
  if (int info = run(&answer, kAsk, &reals, kAsk, &integers, kAsk)) return info;
  Work<T> work(wanted(answer));
  Work<Real<T>> realWork(wanted(reals));
  Work<int32_t> integerWork(integers);
  return run(work.data(), wanted(answer), realWork.data(), wanted(reals), integerWork.data(), integers);
}

namespace {

// Eigenvectors of a real matrix as geev packs them: a conjugate pair shares two columns, its real and imaginary parts.
template <class R>
void unpackVectors(int64_t n, const R* imaginary, const R* packed, std::complex<R>* vectors) {
  for (int64_t j = 0; j < n; ++j) {
    bool pair = imaginary[j] != 0 && j + 1 < n;
    for (int64_t i = 0; i < n; ++i) {
      R re = packed[j * n + i], im = pair ? packed[(j + 1) * n + i] : R(0);
      vectors[j * n + i] = {re, im};
      if (pair) vectors[(j + 1) * n + i] = {re, -im};
    }
    j += pair;
  }
}

}  // namespace

template <class T>
int geev(int64_t n, T* a, std::complex<Real<T>>* values, std::complex<Real<T>>* vectors) {
  char job = vectors ? 'V' : 'N';
  T* left = nullptr;
  if constexpr (kIsComplex<T>) {
    Work<Real<T>> reals(2 * n);
    return withWork<T>([&](T* work, Int lwork) {
      return call<"geev", T>('N', job, Int(n), a, leading(n), values, left, leading(1), vectors, leading(n), work,
                             lwork, reals.data());
    });
  } else {
    Work<T> real(n), imaginary(n), packed(vectors ? n * n : 1);
    int info = withWork<T>([&](T* work, Int lwork) {
      return call<"geev", T>('N', job, Int(n), a, leading(n), real.data(), imaginary.data(), left, leading(1),
                             packed.data(), leading(n), work, lwork);
    });
    if (info) return info;
    for (int64_t j = 0; j < n; ++j) values[j] = {real[j], imaginary[j]};
    if (vectors) unpackVectors(n, imaginary.data(), packed.data(), vectors);
    return 0;
  }
}

template <class T>
int gesdd(char job, int64_t m, int64_t n, T* a, Real<T>* values, T* u, T* vh) {
  int64_t least = std::min(m, n), most = std::max(m, n);
  Work<int32_t> integers(8 * least);
  Int ldvh = leading(job == 'S' ? least : n);
  auto run = [&](auto reals) {
    return withWork<T>([&](T* work, Int lwork) {
      return call<"gesdd", T>(job, Int(m), Int(n), a, leading(m), values, u, leading(m), vh, ldvh, work, lwork, reals,
                              integers.data());
    });
  };
  if constexpr (kIsComplex<T>) {
    int64_t count =
        job == 'N' ? 7 * least : std::max(5 * least * least + 7 * least, 2 * most * least + 2 * least * least + least);
    return run(Work<Real<T>>(count).data());
  } else {
    return run(Absent());
  }
}

template <class T>
void trsm(char side, char uplo, char op, char diagonal, int64_t m, int64_t n, const T* a, T* b) {
  const T one(1), *factor = &one;
  Int rows(m), columns(n), lda = leading(side == 'L' ? m : n), ldb = leading(m);
  callWith<"trsm", T>(std::tuple(&side, &uplo, &op, &diagonal, rows.address(), columns.address(), factor, a,
                                 lda.address(), b, ldb.address(), size_t{1}, size_t{1}, size_t{1}, size_t{1}));
}

template <class T>
struct LeastSquaresArguments {
  int64_t m, n, columns;
  T *a, *b;
  Real<T> rcond;
  Real<T>* singularValues;
  int32_t* rank;
  Int ldb() const { return leading(std::max(m, n)); }
};

namespace {

// Real scratch memory, which only the complex routines take.
template <class T>
auto realWork(const Work<Real<T>>& work) {
  if constexpr (kIsComplex<T>)
    return work.data();
  else
    return Absent();
}

template <class T>
int gelsy(const LeastSquaresArguments<T>& p) {
  Work<int32_t> pivots(p.n);
  std::fill_n(pivots.data(), p.n, 0);
  Work<Real<T>> reals(2 * p.n);
  return withWork<T>([&](T* work, Int lwork) {
    return call<"gelsy", T>(Int(p.m), Int(p.n), Int(p.columns), p.a, leading(p.m), p.b, p.ldb(), pivots.data(),
                            &p.rcond, p.rank, work, lwork, realWork<T>(reals));
  });
}

template <class T>
int gelss(const LeastSquaresArguments<T>& p) {
  Work<Real<T>> reals(5 * std::min(p.m, p.n));
  return withWork<T>([&](T* work, Int lwork) {
    return call<"gelss", T>(Int(p.m), Int(p.n), Int(p.columns), p.a, leading(p.m), p.b, p.ldb(), p.singularValues,
                            &p.rcond, p.rank, work, lwork, realWork<T>(reals));
  });
}

template <class T>
int gelsd(const LeastSquaresArguments<T>& p) {
  // It fails so for NaN, but prints what it did not like first.
  constexpr int kBadMatrix = -4;
  for (int64_t i = 0; i < p.m * p.n; ++i)
    if (std::abs(p.a[i]) != std::abs(p.a[i])) return kBadMatrix;
  auto run = [&](T* work, Int lwork, auto reals, int32_t* integers) {
    return call<"gelsd", T>(Int(p.m), Int(p.n), Int(p.columns), p.a, leading(p.m), p.b, p.ldb(), p.singularValues,
                            &p.rcond, p.rank, work, lwork, reals, integers);
  };
  T answer(0);
  Work<Real<T>> realAnswer(1);
  realAnswer[0] = 0;
  int32_t integers = 0;
  if (int info = run(&answer, kAsk, realWork<T>(realAnswer), &integers)) return info;
  Work<T> work(wanted(answer));
  Work<Real<T>> reals(wanted(realAnswer[0]));
  Work<int32_t> integerWork(integers);
  return run(work.data(), wanted(answer), realWork<T>(reals), integerWork.data());
}

}  // namespace

template <class T>
int leastSquares(LeastSquares driver, int64_t m, int64_t n, int64_t columns, T* a, T* b, double rcond,
                 Real<T>* singularValues, int32_t* rank) {
  LeastSquaresArguments<T> p{m, n, columns, a, b, static_cast<Real<T>>(rcond), singularValues, rank};
  switch (driver) {
    case LeastSquares::Gelsy:
      return gelsy(p);
    case LeastSquares::Gelsd:
      return gelsd(p);
    case LeastSquares::Gelss:
      return gelss(p);
    case LeastSquares::Gels:
      break;
  }
  return withWork<T>([&](T* work, Int lwork) {
    return call<"gels", T>('N', Int(m), Int(n), Int(columns), a, leading(m), b, p.ldb(), work, lwork);
  });
}

#define TS_INSTANTIATE(T)                                                                        \
  template int getrf<T>(int64_t, int64_t, T*, int32_t*);                                         \
  template int getrs<T>(char, int64_t, int64_t, const T*, const int32_t*, T*);                   \
  template int potrf<T>(char, int64_t, T*);                                                      \
  template int potri<T>(char, int64_t, T*);                                                      \
  template int potrs<T>(char, int64_t, int64_t, const T*, T*);                                   \
  template int geqrf<T>(int64_t, int64_t, T*, T*);                                               \
  template int orgqr<T>(int64_t, int64_t, int64_t, T*, const T*);                                \
  template int ormqr<T>(char, char, int64_t, int64_t, int64_t, const T*, int64_t, const T*, T*); \
  template int sytrf<T>(bool, int64_t, T*, int32_t*);                                            \
  template int sytrs<T>(bool, int64_t, int64_t, const T*, const int32_t*, T*);                   \
  template int syevd<T>(bool, char, int64_t, T*, Real<T>*);                                      \
  template int geev<T>(int64_t, T*, std::complex<Real<T>>*, std::complex<Real<T>>*);             \
  template int gesdd<T>(char, int64_t, int64_t, T*, Real<T>*, T*, T*);                           \
  template void trsm<T>(char, char, char, char, int64_t, int64_t, const T*, T*);                 \
  template int leastSquares<T>(LeastSquares, int64_t, int64_t, int64_t, T*, T*, double, Real<T>*, int32_t*);
TS_INSTANTIATE(float)
TS_INSTANTIATE(double)
TS_INSTANTIATE(std::complex<float>)
TS_INSTANTIATE(std::complex<double>)
#undef TS_INSTANTIATE

}  // namespace tscompile::lapack
