"""A repository with the rules that Bazel 4 has built in, under the name that BUILD files, ours and Bazel's own, load them
from. The repositories of that name on the network, and Debian's rules_cc, which wants a newer Bazel, are not needed."""

def _builtin_rules(ctx):
    folder = ctx.name.split("_")[-1]
    ctx.file(folder + "/BUILD")
    ctx.file(folder + "/defs.bzl", "".join(["{0} = native.{0}\n".format(rule) for rule in ctx.attr.rules]))

builtin_rules = repository_rule(
    implementation = _builtin_rules,
    attrs = {"rules": attr.string_list()},
    local = True,
)
