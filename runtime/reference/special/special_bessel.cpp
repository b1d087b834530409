// Bessel functions of orders 0 and 1 of every kind, and the Airy function.
#include "runtime/reference/special/series.h"
#include "runtime/reference/special/special_math.h"

#include <limits>
#include <numbers>

namespace tscompile {
namespace {

constexpr double kPi = std::numbers::pi, kTwoOverPi = 0.63661977236758134308, kRootTwoOverPi = 0.79788456080286535588;

// J0 and Y0: p and q of their asymptotic form, each a quotient; then J0 and Y0 near 0.
constexpr double kJ0PTop[] = {0.0007969367292973471,
                              0.08283523921074408,
                              1.239533716464143,
                              5.447250030587687,
                              8.74716500199817,
                              5.303240382353949,
                              1.0};
constexpr double kJ0PBottom[] = {0.0009244088105588637,
                                 0.08562884743544745,
                                 1.2535274390105895,
                                 5.470977403304171,
                                 8.761908832370695,
                                 5.306052882353947,
                                 1.0};
constexpr double kJ0QTop[] = {-0.011366383889846916, -1.2825271867050931, -19.553954425773597, -93.20601521237683,
                              -177.68116798048806,   -147.07750515495118, -51.41053267665993,  -6.050143506007285};
constexpr double kJ0QBottom[] = {64.3178256118178,  856.4300259769806,  3882.4018360540163, 7240.467741956525,
                                 5930.727011873169, 2062.0933166032783, 242.0057402402914};
constexpr double kJ0Top[] = {-4794432209.782018, 1956174919465.5657, -249248344360967.72, 9708622510473064.0};
constexpr double kJ0Bottom[] = {499.563147152651,  173785.4016763747,  48440965.83399621,      11185553704.535683,
                                2112775201154.892, 310518229857422.56, 3.1812195594320496e+16, 1.7108629408104315e+18};
constexpr double kY0Top[] = {15592.436785523574, -14663929.59039716,  5435264770.518765,      -982136065717.9115,
                             87590639439536.7,   -3466283033847297.0, 4.4273326857256984e+16, -1.8495080043698668e+16};
constexpr double kY0Bottom[] = {1041.2835366425984, 626107.330137135,   268919633.39381415,    86400248710.3935,
                                20297961275010.555, 3171577528429750.5, 2.5059625617265306e+17};

// The same for J1 and Y1.
constexpr double kJ1PTop[] = {0.0007621256162081731,
                              0.07313970569409176,
                              1.1271960812968493,
                              5.112079511468076,
                              8.424045901417724,
                              5.214515986823615,
                              1.0};
constexpr double kJ1PBottom[] = {0.0005713231280725487,
                                 0.06884559087544954,
                                 1.105142326340617,
                                 5.073863861286015,
                                 8.399855543276042,
                                 5.209828486823619,
                                 1.0};
constexpr double kJ1QTop[] = {0.05108625947501766, 4.982138729512334, 75.82382841325453,  366.7796093601508,
                              710.8563049989261,   597.4896124006136, 211.68875710057213, 25.207020585802372};
constexpr double kJ1QBottom[] = {74.23732770356752, 1056.4488603826283, 4986.410583376536, 9562.318924047562,
                                 7997.041604473507, 2826.1927851763908, 336.0936078106983};
constexpr double kJ1Top[] = {-899971225.7055594, 452228297998.19403, -72749424522181.83, 3682957328638529.0};
constexpr double kJ1Bottom[] = {620.8364781180543, 256987.25675774884, 83514679.14319493,     22151159547.97925,
                                4749141220799.914, 784369607876235.9,  8.952223361846274e+16, 5.322786203326801e+18};
constexpr double kY1Top[] = {1263204747.9017804,  -647355876379.1603,    114509511541823.73,
                             -8127702555013251.0, 2.024394757135949e+17, -7.788771962659501e+17};
constexpr double kY1Bottom[] = {594.3015923461282,  235564.09294306856, 73481194.44597217,     18760131610.870617,
                                3882312774962.3857, 620557727146953.8,  6.871410873553005e+16, 3.9727060811656064e+18};

// The modified functions, scaled: up to 8 and from there on; up to 2 and from there on.
constexpr double kI0Near[] = {
    -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16, 1.715391285555133e-15,
    -1.1685332877993451e-14, 7.676185498604936e-14,  -4.856446783111929e-13, 2.95505266312964e-12,
    -1.726826291441556e-11,  9.675809035373237e-11,  -5.189795601635263e-10, 2.6598237246823866e-09,
    -1.300025009986248e-08,  6.046995022541919e-08,  -2.670793853940612e-07, 1.1173875391201037e-06,
    -4.4167383584587505e-06, 1.6448448070728896e-05, -5.754195010082104e-05, 0.00018850288509584165,
    -0.0005763755745385824,  0.0016394756169413357,  -0.004324309995050576,  0.010546460394594998,
    -0.02373741480589947,    0.04930528423967071,    -0.09490109704804764,   0.17162090152220877,
    -0.3046826723431984,     0.6767952744094761};
constexpr double kI0Far[] = {
    -7.233180487874754e-18,  -4.830504485944182e-18,  4.46562142029676e-17,    3.461222867697461e-17,
    -2.8276239805165836e-16, -3.425485619677219e-16,  1.7725601330565263e-15,  3.8116806693526224e-15,
    -9.554846698828307e-15,  -4.150569347287222e-14,  1.54008621752141e-14,    3.8527783827421426e-13,
    7.180124451383666e-13,   -1.7941785315068062e-12, -1.3215811840447713e-11, -3.1499165279632416e-11,
    1.1889147107846439e-11,  4.94060238822497e-10,    3.3962320257083865e-09,  2.266668990498178e-08,
    2.0489185894690638e-07,  2.8913705208347567e-06,  6.889758346916825e-05,   0.0033691164782556943,
    0.8044904110141088};
constexpr double kI1Near[] = {
    2.7779141127610464e-18, -2.111421214358166e-17,  1.5536319577362005e-16, -1.1055969477353862e-15,
    7.600684294735408e-15,  -5.042185504727912e-14,  3.223793365945575e-13,  -1.9839743977649436e-12,
    1.1736186298890901e-11, -6.663489723502027e-11,  3.625590281552117e-10,  -1.8872497517228294e-09,
    9.381537386495773e-09,  -4.445059128796328e-08,  2.0032947535521353e-07, -8.568720264695455e-07,
    3.4702513081376785e-06, -1.3273163656039436e-05, 4.781565107550054e-05,  -0.00016176081582589674,
    0.0005122859561685758,  -0.0015135724506312532,  0.004156422944312888,   -0.010564084894626197,
    0.024726449030626516,   -0.05294598120809499,    0.1026436586898471,     -0.17641651835783406,
    0.25258718644363365};
constexpr double kI1Far[] = {
    7.517296310842105e-18,   4.414348323071708e-18,  -4.6503053684893586e-17, -3.209525921993424e-17,
    2.96262899764595e-16,    3.3082023109209285e-16, -1.8803547755107825e-15, -3.8144030724370075e-15,
    1.0420276984128802e-14,  4.272440016711951e-14,  -2.1015418427726643e-14, -4.0835511110921974e-13,
    -7.198551776245908e-13,  2.0356285441470896e-12, 1.4125807436613782e-11,  3.2526035830154884e-11,
    -1.8974958123505413e-11, -5.589743462196584e-10, -3.835380385964237e-09,  -2.6314688468895196e-08,
    -2.512236237870209e-07,  -3.882564808877691e-06, -0.00011058893876262371, -0.009761097491361469,
    0.7785762350182801};
constexpr double kK0Near[] = {
    1.374465435613523e-16, 4.25981614279661e-14, 1.0349695257633842e-11, 1.904516377220209e-09, 2.5347910790261494e-07,
    2.286212103119452e-05, 0.001264615411446926, 0.0359799365153615,     0.3442898999246285,    -0.5353273932339028};
constexpr double kK0Far[] = {
    5.300433772686263e-18,  -1.6475804301524212e-17, 5.2103915050390274e-17, -1.678231096805412e-16,
    5.512055978524319e-16,  -1.848593377343779e-15,  6.3400764774050706e-15, -2.2275133269916698e-14,
    8.032890775363575e-14,  -2.9800969231727303e-13, 1.140340588208475e-12,  -4.514597883373944e-12,
    1.8559491149547177e-11, -7.957489244477107e-11,  3.577397281400301e-10,  -1.69753450938906e-09,
    8.574034017414225e-09,  -4.660489897687948e-08,  2.766813639445015e-07,  -1.8317555227191195e-06,
    1.39498137188765e-05,   -0.00012849549581627802, 0.0015698838857300533,  -0.0314481013119645,
    2.4403030820659555};
constexpr double kK1Near[] = {-7.023863479386288e-18,  -2.427449850519366e-15, -6.666901694199329e-13,
                              -1.4114883926335278e-10, -2.213387630734726e-08, -2.4334061415659684e-06,
                              -0.0001730288957513052,  -0.006975723859639864,  -0.12261118082265715,
                              -0.3531559607765449,     1.5253002273389478};
constexpr double kK1Far[] = {
    -5.756744483665017e-18,  1.7940508731475592e-17, -5.689462558442859e-17,  1.838093544366639e-16,
    -6.057047248373319e-16,  2.038703165624334e-15,  -7.019837090418314e-15,  2.4771544244813043e-14,
    -8.976705182324994e-14,  3.3484196660784293e-13, -1.2891739609510289e-12, 5.13963967348173e-12,
    -2.1299678384275683e-11, 9.218315187605006e-11,  -4.1903547593418965e-10, 2.015049755197033e-09,
    -1.0345762465678097e-08, 5.7410841254500495e-08, -3.5019606030878126e-07, 2.406484947837217e-06,
    -1.936197974166083e-05,  0.00019521551847135162, -0.002857816859622779,   0.10392373657681724,
    2.7206261904844427};

// The Airy function: beyond 2.09, and the two quotients of its form below -2.09.
constexpr double kAiryTop[] = {0.346538101525629,  12.007595273964581, 76.27960536152345,  168.08922493463058,
                               159.75639135016442, 70.53609068404442,  14.026469116338967, 1.0};
constexpr double kAiryBottom[] = {0.5675945326387702, 14.75625625848472, 84.51389701414746,  177.31808814540045,
                                  164.2346928715297,  71.47784008255756, 14.095913560783403, 1.0};
constexpr double kAiryFTop[] = {-0.1316963234183318,    -0.6264565444319123,    -0.6931580360369335,
                                -0.2797799815451191,    -0.04919001326095003,   -0.004062659235948854,
                                -0.0001592764962392621, -2.776491081552329e-06, -1.6778769848911465e-08};
constexpr double kAiryFBottom[] = {13.356042070655324,   32.682503279522464,    26.736704094149957,
                                   9.187074029072596,    1.4752914677166642,    0.11568717379518804,
                                   0.004402916416152112, 7.547203482874142e-05, 4.5185009297058035e-07};
constexpr double kAiryGTop[] = {0.01973399320916857,  0.39110302961568827,   1.0657989759959559,   0.9391692298166502,
                                0.35146565610554764,  0.06338889196289255,   0.005858041130483885, 0.000282851600836737,
                                6.98793669997261e-06, 8.117892395543892e-08, 3.415517847659236e-10};
constexpr double kAiryGBottom[] = {
    9.30892908077442,    19.835292871831214,   15.564662893286462,     5.476860694229755,      0.9542936116189619,
    0.08645808263523921, 0.004126565238242226, 0.00010125908511650914, 1.1716673321441352e-06, 4.9183457006293e-09};

// Beyond 5: J is the cosine of a phase, Y the sine, each mixed with a little of the other.
template <class T>
struct Waves {
  T p, q, cosine, sine, amplitude;
  T first() const { return (p * cosine - q * sine) * amplitude; }
  T second() const { return (p * sine + q * cosine) * amplitude; }
};
template <class T>
Waves<T> waves(T x, T p, T q, double phase) {
  T angle = x - T(phase);
  return {p, 5 / x * q, std::cos(angle), std::sin(angle), T(kRootTwoOverPi) / std::sqrt(x)};
}
template <class T>
Waves<T> waves0(T x) {
  T z = 25 / (x * x);
  return waves(x, polynomial(z, kJ0PTop) / polynomial(z, kJ0PBottom),
               polynomial(z, kJ0QTop) / polynomial(z, kJ0QBottom), kPi / 4);
}
template <class T>
Waves<T> waves1(T x) {
  T z = 5 / x * (5 / x);
  return waves(x, polynomial(z, kJ1PTop) / polynomial(z, kJ1PBottom),
               polynomial(z, kJ1QTop) / polynomial(z, kJ1QBottom), 3 * kPi / 4);
}

}  // namespace

template <std::floating_point T>
T besselJ0(T x) {
  x = std::abs(x);
  if (x > 5 || x != x) return waves0(x).first();
  T z = x * x;
  if (x < T(1e-5)) return 1 - z / 4;
  return (z - T(5.78318596294678452118)) * (z - T(30.4712623436620863991)) * polynomial(z, kJ0Top) /
         polynomial(z, kJ0Bottom);
}

template <std::floating_point T>
T besselJ1(T x) {
  if (x < 0) return -besselJ1(-x);
  if (x > 5 || x != x) return waves1(x).first();
  T z = x * x;
  return polynomial(z, kJ1Top) / polynomial(z, kJ1Bottom) * x * (z - T(14.6819706421238932572)) *
         (z - T(49.2184563216946036703));
}

template <std::floating_point T>
T besselY0(T x) {
  if (x > 5 || x != x) return waves0(x).second();
  if (x == 0) return -std::numeric_limits<T>::infinity();
  if (x < 0) return std::numeric_limits<T>::quiet_NaN();
  T z = x * x;
  return polynomial(z, kY0Top) / polynomial(z, kY0Bottom) + T(kTwoOverPi) * std::log(x) * besselJ0(x);
}

template <std::floating_point T>
T besselY1(T x) {
  if (x > 5 || x != x) return waves1(x).second();
  if (x == 0) return -std::numeric_limits<T>::infinity();
  if (x < 0) return std::numeric_limits<T>::quiet_NaN();
  T z = x * x;
  return x * (polynomial(z, kY1Top) / polynomial(z, kY1Bottom)) + T(kTwoOverPi) * (besselJ1(x) * std::log(x) - 1 / x);
}

template <std::floating_point T>
T sphericalBesselJ0(T x) {
  if (std::isinf(x)) return 0;
  if (std::abs(x) >= T(0.5) || x != x) return std::sin(x) / x;
  constexpr double kTaylor[] = {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1};
  return polynomial(x * x, kTaylor);
}

// ---- modified ----

template <bool kScaled, std::floating_point T>
T besselI0(T x) {
  x = std::abs(x);
  T value = x <= 8 ? chebyshevSeries(x / 2 - 2, kI0Near) : chebyshevSeries(32 / x - 2, kI0Far);
  if (!kScaled) value *= std::exp(x);
  return x <= 8 ? value : value / std::sqrt(x);
}

template <bool kScaled, std::floating_point T>
T besselI1(T x) {
  T size = std::abs(x);
  T value = size <= 8 ? chebyshevSeries(size / 2 - 2, kI1Near) * size : chebyshevSeries(32 / size - 2, kI1Far);
  if (!kScaled) value *= std::exp(size);
  if (!(size <= 8)) value /= std::sqrt(size);
  return x < 0 ? -value : value;
}

template <bool kScaled, std::floating_point T>
T besselK0(T x) {
  if (x == 0) return std::numeric_limits<T>::infinity();
  if (x < 0) return std::numeric_limits<T>::quiet_NaN();
  if (x <= 2) {
    T value = chebyshevSeries(x * x - 2, kK0Near) - std::log(x / 2) * besselI0<false>(x);
    return kScaled ? value * std::exp(x) : value;
  }
  T value = chebyshevSeries(8 / x - 2, kK0Far) / std::sqrt(x);
  return kScaled ? value : value * std::exp(-x);
}

template <bool kScaled, std::floating_point T>
T besselK1(T x) {
  if (x == 0) return std::numeric_limits<T>::infinity();
  if (x < 0) return std::numeric_limits<T>::quiet_NaN();
  if (x <= 2) {
    T value = std::log(x / 2) * besselI1<false>(x) + chebyshevSeries(x * x - 2, kK1Near) / x;
    return kScaled ? value * std::exp(x) : value;
  }
  T value = chebyshevSeries(8 / x - 2, kK1Far) / std::sqrt(x);
  return kScaled ? value : value * std::exp(-x);
}

// ---- Airy ----

namespace {

// Below -2.09: a sine and a cosine.
template <class T>
T airyWaves(T x) {
  T zeta = -2 * x * std::sqrt(-x) / 3, z = 1 / zeta, w = z * z, angle = zeta + T(kPi / 4);
  T f = 1 + w * polynomial(w, kAiryFTop) / polynomial(w, kAiryFBottom);
  T g = z * polynomial(w, kAiryGTop) / polynomial(w, kAiryGBottom);
  return T(0.56418958354775628695) / std::sqrt(std::sqrt(-x)) * (std::sin(angle) * f - std::cos(angle) * g);
}

// The Maclaurin series: Ai(0) f - Ai'(0) g.
template <class T>
T airySeries(T x) {
  T f = 1, g = x, termF = 1, termG = x, cube = x * x * x, k = 1;
  for (T change = 1; change > std::numeric_limits<T>::epsilon();) {
    termF *= cube / ((k + 1) * (k + 2));
    termG *= cube / ((k + 2) * (k + 3));
    f += termF;
    g += termG;
    k += 3;
    change = std::abs(termF / f);
  }
  return T(0.355028053887817239260) * f - T(0.258819403792806798405) * g;
}

}  // namespace

template <std::floating_point T>
T airyAi(T x) {
  if (std::isinf(x)) return std::numeric_limits<T>::quiet_NaN();
  if (x > T(103.892)) return 0;
  if (x < T(-2.09)) return airyWaves(x);
  if (!(x >= T(2.09))) return airySeries(x);
  T zeta = 2 * x * std::sqrt(x) / 3, z = 1 / zeta;
  return T(0.56418958354775628695) * (polynomial(z, kAiryTop) / polynomial(z, kAiryBottom)) /
         (2 * std::sqrt(std::sqrt(x)) * std::exp(zeta));
}

#define TS_INSTANTIATE(T)          \
  template T besselJ0(T);          \
  template T besselJ1(T);          \
  template T besselY0(T);          \
  template T besselY1(T);          \
  template T sphericalBesselJ0(T); \
  template T airyAi(T);            \
  template T besselI0<false>(T);   \
  template T besselI0<true>(T);    \
  template T besselI1<false>(T);   \
  template T besselI1<true>(T);    \
  template T besselK0<false>(T);   \
  template T besselK0<true>(T);    \
  template T besselK1<false>(T);   \
  template T besselK1<true>(T);
TS_INSTANTIATE(float)
TS_INSTANTIATE(double)
#undef TS_INSTANTIATE

}  // namespace tscompile
