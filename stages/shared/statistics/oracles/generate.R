# Writes r.json: inputs and what R says about them.
#
# Run once, by hand, with the version named in the file it writes (Debian: apt-get install r-base-core):
#     Rscript stages/shared/statistics/oracles/generate.R
# Base R only. Exact p values without a function in base R are enumerated here, plainly and in full:
# every arrangement is made and its statistic computed. The tests never run this.

set.seed(164)
cases <- character()

text <- function(x) {
  if (is.null(x)) return("null")
  if (is.list(x)) {
    parts <- vapply(x, text, "")
    if (is.null(names(x))) return(paste0("[", paste(parts, collapse = ","), "]"))
    return(paste0("{", paste0("\"", names(x), "\":", parts, collapse = ","), "}"))
  }
  if (is.character(x)) return(paste0("\"", x, "\""))
  written <- ifelse(is.finite(x), sprintf("%.17g", x), "null")
  if (length(x) == 1 && !inherits(x, "AsIs")) return(written)
  paste0("[", paste(written, collapse = ","), "]")
}
case <- function(procedure, name, expected, ...) {
  fields <- c(list(procedure = procedure, name = name), list(...), list(expected = expected))
  cases <<- c(cases, text(fields))
}

# All signs, all orders, all choices.
signs <- function(n) as.matrix(expand.grid(rep(list(c(1, -1)), n)))
orders <- function(v) {
  if (length(v) <= 1) return(list(v))
  unlist(lapply(seq_along(v), function(i) lapply(orders(v[-i]), function(rest) c(v[i], rest))), recursive = FALSE)
}

# Effects of units: t, interval, one-sided bounds, power, sign flips.
effects <- list(
  published = c(0.021, 0.034, 0.012, 0.028, 0.019),
  three = c(0.10, 0.12, 0.07),
  mixed = round(rnorm(8, 0.02, 0.05), 6),
  ten = round(rnorm(10, -0.3, 0.4), 6),
  twelve = round(rexp(12) - 1, 6),
  offset = 1000 + c(1, 2, 4, 3, 5, 9) / 1000
)
for (name in names(effects)) {
  x <- effects[[name]]
  n <- length(x)
  two <- t.test(x)
  flips <- abs(signs(n) %*% x) >= abs(sum(x)) - 1e-9 * sum(abs(x))
  case("unit", name, list(
    t = unname(two$statistic), p = two$p.value, interval = as.numeric(two$conf.int),
    narrow = as.numeric(t.test(x, conf.level = 0.9)$conf.int),
    above = t.test(x, mu = 0.01, alternative = "greater")$p.value,
    below = t.test(x, mu = 0.01, alternative = "less")$p.value,
    sign_flip = mean(flips)
  ), a = x)
}
for (n in c(3, 4, 5, 6, 8, 10, 20, 50)) for (alpha in c(0.05, 0.01)) {
  found <- function(d) power.t.test(n, d, 1, alpha, type = "one.sample", strict = TRUE)$power
  detectable <- uniroot(function(d) found(d) - 0.8, c(0.01, 50), tol = 1e-14)$root
  case("power", sprintf("n = %d, alpha = %g", n, alpha),
       list(power = vapply(c(0.25, 1, 2.5), found, 0), detectable = detectable), units = n, alpha = alpha, effects = c(0.25, 1, 2.5))
}

# Signed ranks: exact without ties by wilcox.test, with ties by all signs.
for (name in names(effects)) {
  x <- effects[[name]]
  case("signed_rank", name, list(p = wilcox.test(x, exact = TRUE)$p.value), a = x)
}
tied <- list(
  equal = c(2, 2, 2, 2), pairs = c(1, 1, 2, 2, 3), zeros = c(5, 0, 3, 2, 0, 7, 1, 4, 0),
  both = c(1, -1, 0, 2, 2, -3, 0, 3, 4), opposed = c(1, -1, 1, -1)
)
for (name in names(tied)) {
  x <- tied[[name]]
  moved <- x[x != 0]
  ranks <- rank(abs(moved))
  w <- sum(ranks * sign(moved))
  wilcox <- mean(abs(signs(length(moved)) %*% ranks) >= abs(w) - 1e-9)
  ranks <- rank(abs(x))[x != 0]
  pratt <- mean(abs(signs(length(moved)) %*% ranks) >= abs(sum(ranks * sign(moved))) - 1e-9)
  case("signed_rank_tied", name, list(wilcox = wilcox, pratt = pratt), a = x)
}

# Rank sums and permutations of labels: every choice of the first group.
pairs <- list(
  issue = list(c(1, 1, 2), c(3, 4, 4)), overlap = list(c(1, 3, 3, 5), c(3, 4, 6, 6, 6)),
  untied = list(c(1.1, 2.3, 0.7, 5.2, 3.3), c(2.2, 6.1, 7.4, 3.9)), one = list(c(4), c(1, 2, 2, 3))
)
for (name in names(pairs)) {
  a <- pairs[[name]][[1]]
  b <- pairs[[name]][[2]]
  pooled <- c(a, b)
  chosen <- combn(length(pooled), length(a))
  ranks <- rank(pooled)
  centre <- length(a) * (length(pooled) + 1) / 2
  far <- abs(apply(chosen, 2, function(i) sum(ranks[i])) - centre)
  means <- abs(apply(chosen, 2, function(i) mean(pooled[i]) - mean(pooled[-i])))
  expected <- list(u = mean(far >= abs(sum(ranks[seq_along(a)]) - centre) - 1e-9),
                   means = mean(means >= abs(mean(a) - mean(b)) - 1e-9),
                   normal = suppressWarnings(wilcox.test(a, b, exact = FALSE, correct = TRUE)$p.value))
  if (!anyDuplicated(pooled)) stopifnot(all.equal(expected$u, wilcox.test(a, b, exact = TRUE)$p.value))
  case("two_groups", name, expected, a = I(a), b = I(b))
}

# Correlation: R's exact p values, n <= 9 for Spearman without ties.
points <- list(three = list(1:3, c(2, 5, 9)), five = list(1:5, c(2, 1, 4, 3, 5)),
               eight = list(round(rnorm(8), 5), round(rnorm(8), 5)), nine = list(round(rnorm(9), 5), round(rnorm(9), 5)))
for (name in names(points)) {
  a <- points[[name]][[1]]
  b <- points[[name]][[2]]
  case("order", name, list(spearman = cor.test(a, b, method = "spearman", exact = TRUE)$p.value,
                           kendall = cor.test(a, b, method = "kendall", exact = TRUE)$p.value), a = as.numeric(a), b = b)
}

# Several systems in blocks.
blocks <- list(
  published = rbind(c(1, 1.1, 1.2), c(1.1, 1.05, 1.3), c(0.9, 1, 1.2), c(1, 1.2, 1.1)),
  five = round(matrix(rnorm(15), 5), 4) + rep(c(0, 0.5, 1.5), each = 5),
  ties = rbind(c(1, 1, 2), c(2, 3, 3), c(1, 2, 3), c(1, 1, 1), c(4, 5, 5)),
  four = round(matrix(rnorm(16), 4), 4)
)
spread <- function(sums) sum((sums - mean(sums))^2)
for (name in names(blocks)) {
  m <- blocks[[name]]
  ranks <- t(apply(m, 1, rank))
  sums <- list(rep(0, ncol(m)))
  for (i in seq_len(nrow(m))) sums <- unlist(lapply(orders(ranks[i, ]), function(o) lapply(sums, function(s) s + o)), recursive = FALSE)
  exact <- mean(vapply(sums, spread, 0) >= spread(colSums(ranks)) - 1e-9)
  asymptotic <- friedman.test(m)
  case("blocks", name, list(
    chi_squared = unname(asymptotic$statistic), asymptotic = asymptotic$p.value, exact = exact
  ), rows = lapply(seq_len(nrow(m)), function(i) m[i, ]))
}

# Several systems without blocks.
groups <- list(apart = list(c(1, 2), c(3, 4), c(5, 6)), mixed = list(c(2.1, 3.4, 1.2), c(2.2, 4.1), c(0.5, 3.3, 5.1, 2.9)),
               ties = list(c(1, 1, 2), c(2, 2, 3), c(3, 1)))
share <- function(left, sizes) {
  if (length(sizes) == 1) return(list(list(left)))
  chosen <- combn(length(left), sizes[1], simplify = FALSE)
  unlist(lapply(chosen, function(i) lapply(share(left[-i], sizes[-1]), function(rest) c(list(left[i]), rest))), recursive = FALSE)
}
for (name in names(groups)) {
  g <- groups[[name]]
  test <- kruskal.test(g)
  ranks <- rank(unlist(g))
  statistic <- function(parts) sum(vapply(parts, function(p) sum(p)^2 / length(p), 0))
  seen <- statistic(split(ranks, rep(seq_along(g), lengths(g))))
  exact <- mean(vapply(share(ranks, lengths(g)), statistic, 0) >= seen - 1e-9)
  case("groups", name, list(h = unname(test$statistic), asymptotic = test$p.value, exact = exact), rows = g)
}

# Families.
families <- list(published = c(0.01, 0.04, 0.03, 0.005), ties = c(0.02, 0.02, 0.5, 0.02))
for (name in names(families)) {
  p <- families[[name]]
  case("family", name, list(holm = p.adjust(p, "holm"), bh = p.adjust(p, "BH")), a = p)
}

# Quantiles: ranks whose interval holds 95 % or more, from the binomial distribution.
for (p in c(0.5, 0.9, 0.95, 0.99)) for (n in c(6, 36, 72, 368, 100, 1000)) {
  lower <- qbinom(0.025, n, p)
  upper <- qbinom(0.975, n, p) + 1
  # The largest l with P(X <= l - 1) <= 0.025 and the smallest u with P(X <= u - 1) >= 0.975.
  if (pbinom(lower, n, p) > 0.025) lower <- lower - 1
  ranks <- c(lower + 1, upper)
  bounded <- ranks[1] >= 1 && ranks[2] <= n
  coverage <- pbinom(ranks[2] - 1, n, p) - pbinom(ranks[1] - 1, n, p)
  case("quantile", sprintf("p = %g, n = %d", p, n),
       list(ranks = if (bounded) ranks else c(NA, NA), coverage = if (bounded) coverage else NA), units = n, quantile = p)
}

path <- file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE))), "r.json")
writeLines(c(sprintf("{\"version\": \"%s\",\n\"cases\": [", R.version.string), paste(cases, collapse = ",\n"), "]}"), path)
