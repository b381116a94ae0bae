# SPDX-License-Identifier: Apache-2.0
"""tunectl.patch on small models of transformers, beside the same models as they were. Run by ./check torch."""
import collections
import contextlib
import copy
import importlib.util
import io
import pickle
import sys
import unittest
import unittest.mock

import daemon_kit
from kernel_kit import KernelTest

HAS_TRANSFORMERS = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
FAMILIES = ("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma", "Gemma2", "Gemma3")
BATCH, SEQ, VOCAB, WIDTH, INNER, HEADS, KV_HEADS, HEAD_DIM = 2, 16, 64, 32, 48, 4, 2, 8
TOKENS = BATCH * SEQ


def config_of(family, **changes):
    import transformers

    kind = getattr(transformers, f"{family}{'Text' if family == 'Gemma3' else ''}Config")
    return kind(**{"vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": 2,
                   "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
                   "max_position_embeddings": 64, "pad_token_id": 0, **changes})


def model_of(family="Llama", config=None, **changes):
    import torch
    import transformers

    torch.manual_seed(1)
    model = getattr(transformers, f"{family}ForCausalLM")(config or config_of(family, **changes)).train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:  # not all zeros or ones
                parameter += torch.rand_like(parameter) / 2
    return model


def tokens(seed=2):
    import torch

    return torch.randint(1, VOCAB, (BATCH, SEQ), generator=torch.Generator().manual_seed(seed))


def step(model, call=None, **given):
    """The loss, the logits of an evaluation, and the gradients of one step."""
    import torch

    torch.manual_seed(3)
    model.zero_grad()
    if "labels" not in given and "shift_labels" not in given:
        given["labels"] = tokens()
    made = (model if call is None else call)(input_ids=tokens(), **given)
    made.loss.backward()
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    return [made.loss.detach(), *([] if model.training else [made.logits.detach()]), *gradients]


@unittest.skipUnless(HAS_TRANSFORMERS, "transformers is not installed")
class Patch(KernelTest):
    @classmethod
    def setUpClass(cls):
        daemon_kit.DaemonTest.setUpClass.__func__(cls)

    @classmethod
    def prepare(cls):
        def sweep(kernel, **dims):
            cls.sweep_kernel(kernel, "--dtype", "f32", **dims)

        sweep("rmsnorm", rows=TOKENS, cols=WIDTH, residual=0)
        sweep("rmsnorm_backward", rows=TOKENS, cols=WIDTH)
        sweep("swiglu", rows=TOKENS, cols=INNER)
        sweep("swiglu_backward", rows=TOKENS, cols=INNER)
        for mode in (0, 1):
            sweep("cross_entropy", rows=TOKENS, cols=VOCAB, gradient=mode)
            sweep("rope", seq=TOKENS, batch=1, heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM, backward=mode)

    def setUp(self):
        super().setUp()
        from transformers.utils import logging

        logging.set_verbosity_error()

    def same(self, got, want, tolerance=1e-4):
        import torch

        self.assertEqual(len(got), len(want))
        for one, other in zip(got, want):
            self.assertEqual((one.shape, one.dtype), (other.shape, other.dtype))
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)

    def equal(self, got, want):
        self.same(got, want, tolerance=0)

    def both(self, model, **given):
        """A step of the model patched and as it was, which it is again."""
        import tunectl

        want = step(model, **given)
        self.same(step(tunectl.patch(model), **given), want)
        self.equal(step(tunectl.unpatch(model), **given), want)

    def only_tuned(self):
        """A context in which a call of these kernels fails if it does not launch."""
        from tunectl import ops

        def fails(*_, **__):
            raise AssertionError("a fallback ran")

        stack = contextlib.ExitStack()
        for name in ("rms_norm", "rope", "swiglu", "cross_entropy", "linear_cross_entropy"):
            for kernel in ops._kernels[name]:
                stack.enter_context(unittest.mock.patch.object(kernel, "fallback", fails))
        return stack

    def test_a_step_is_the_same_for_each_family(self):
        import tunectl

        for family in FAMILIES:
            with self.subTest(family):
                model = model_of(family)
                state = {name: one.clone() for name, one in model.state_dict().items()}
                config, text = model.config.to_dict(), repr(model)
                self.both(model)
                model.eval()
                self.both(model)
                self.assertIs(tunectl.patch(model), model)
                self.assertEqual(model.config.to_dict(), config)
                self.assertEqual(repr(model), text)
                self.assertEqual([*model.state_dict()], [*state])
                self.equal([*model.state_dict().values()], [*state.values()])

    def test_layers_launch_what_was_tuned(self):
        import tunectl

        model = tunectl.patch(model_of())
        want = step(model)
        with self.only_tuned():
            self.same(step(model), want)

    def test_report(self):
        import torch
        import tunectl

        report = tunectl.patched(tunectl.patch(model_of("Qwen3")))
        self.assertEqual(report.layers, {"attention": 2, "rope": 2, "rms_norm": 9, "swiglu": 2, "cross_entropy": 1,
                                         "linear_cross_entropy": 1})
        self.assertEqual(report.left, ())
        self.assertIn("rms_norm: 9", repr(report))
        report = tunectl.patched(tunectl.patch(model_of("Gemma2")))
        self.assertEqual(report.layers, {"rope": 2, "rms_norm": 9, "cross_entropy": 1})
        self.assertEqual(len(report.left), 3)
        self.assertIn("1 Gemma2ForCausalLM: its logits exist in training", report.left[0])  # they are capped
        self.assertIn("2 Gemma2Attention: its attention is 'eager'", report.left[1])
        self.assertEqual("2 Gemma2MLP: it is no silu(gate) * up", report.left[2])
        model = tunectl.patch(model_of("Gemma")).to(torch.bfloat16)
        self.assertEqual(tunectl.patched(model).layers["rms_norm"], 5)
        self.assertEqual(tunectl.patched(tunectl.unpatch(model)).layers, {})
        self.assertIn("no layers are patched", repr(tunectl.patched(model)))

    def test_only_this_model_changes(self):
        import transformers
        import tunectl

        llama = sys.modules["transformers.models.llama.modeling_llama"]
        before, config = dict(vars(llama)), config_of("Llama")
        kinds = {kind: dict(vars(kind)) for kind in vars(llama).values() if isinstance(kind, type)}
        registered = set(llama.ALL_ATTENTION_FUNCTIONS)
        one, other = model_of(config=config), model_of(config=config)
        want = step(other)
        tunectl.patch(one)
        self.assertEqual(tunectl.patched(other).layers, {})
        self.assertTrue(all(type(module).__module__ == "torch.nn.modules.container" or type(module) in
                            (*kinds, *map(type, (other.lm_head, other.model.embed_tokens, other.model.layers[0].mlp.act_fn)))
                            for module in other.modules()))
        self.equal(step(other), want)
        self.assertEqual(vars(llama), before)
        self.assertEqual(set(llama.ALL_ATTENTION_FUNCTIONS), registered)
        for kind, members in kinds.items():
            self.assertEqual({**members, **vars(kind)}, {**vars(kind), **members})
        self.assertIsInstance(one.model.norm, llama.LlamaRMSNorm)
        self.assertEqual(type(one.model.norm).__name__, "LlamaRMSNorm")
        self.assertIsInstance(transformers.LlamaForCausalLM(config).model.norm, llama.LlamaRMSNorm)

    def test_twice_changes_nothing(self):
        import tunectl

        model = tunectl.patch(model_of())
        kinds, report = [type(module) for module in model.modules()], tunectl.patched(model)
        self.assertIs(tunectl.patch(model), model)
        self.assertEqual([type(module) for module in model.modules()], kinds)
        self.assertEqual(tunectl.patched(model).layers, report.layers)
        own = [type(module) for module in model_of().modules()]
        self.assertEqual([type(module) for module in tunectl.unpatch(tunectl.unpatch(model)).modules()], own)
        self.assertNotIn("_loss_function", vars(model))

    def test_masks_and_other_forms_of_attention(self):
        import torch
        import tunectl

        padding = torch.ones(BATCH, SEQ, dtype=torch.long)
        padding[0, :5] = 0
        packed = torch.cat((torch.arange(6), torch.arange(SEQ - 6))).expand(BATCH, -1)
        free = torch.zeros(BATCH, 1, SEQ, SEQ)
        free[:, :, 3, 1] = -1e4
        for family in ("Llama", "Qwen3", "Mistral"):
            for given in ({"attention_mask": padding}, {"position_ids": packed}, {"attention_mask": free}):
                with self.subTest(family, given=[*given]):
                    self.both(model_of(family), **given)
        for changes in ({"sliding_window": 4}, {"sliding_window": 4, "attention_dropout": 0.3}, {"attention_dropout": 0.3},
                        {"attn_implementation": "eager"}, {"num_key_value_heads": HEADS}, {"hidden_act": "gelu"}):
            with self.subTest(changes):
                self.both(model_of("Mistral", **changes))
        model = model_of(attn_implementation="eager").eval()
        more = {"output_attentions": True, "output_hidden_states": True}
        want = model(input_ids=tokens(), **more)
        got = tunectl.patch(model)(input_ids=tokens(), **more)
        self.same([*got.attentions, *got.hidden_states], [*want.attentions, *want.hidden_states])
        self.assertEqual((len(got.attentions), len(got.hidden_states)), (2, 3))
        model.set_attn_implementation("sdpa")  # after the patch
        self.assertEqual(tunectl.patched(model).layers["attention"], 2)
        self.same([model(input_ids=tokens()).logits], [want.logits])

    def test_plain_causal_attention_is_the_op(self):
        import tunectl
        from tunectl import ops

        for changes in ({}, {"sliding_window": SEQ + 1}):
            model = tunectl.patch(model_of("Mistral", **changes))
            with unittest.mock.patch.object(ops, "attention", wraps=ops.attention) as seen:
                step(model)
            self.assertEqual([call.kwargs["causal"] for call in seen.call_args_list], [True, True])

    def test_attention_has_the_windows_of_a_model(self):
        import torch
        import tunectl
        from tunectl import ops

        padding = torch.ones(BATCH, SEQ, dtype=torch.long)
        for family in ("Mistral", "Qwen2", "Gemma3"):
            changes = {"sliding_window": 4}
            if family == "Qwen2":
                changes |= {"use_sliding_window": True, "max_window_layers": 0}
            if family == "Gemma3":
                changes |= {"layer_types": ["sliding_attention", "full_attention"]}
            windows = [4, 0 if family == "Gemma3" else 4]
            for given in ({}, {"attention_mask": padding}, {"use_cache": True}):
                with self.subTest(family, given=[*given]):
                    model = model_of(family, **changes)
                    want = step(model, **given)
                    with unittest.mock.patch.object(ops, "attention", wraps=ops.attention) as seen:
                        self.same(step(tunectl.patch(model), **given), want)
                    self.assertEqual([call.kwargs["window"] for call in seen.call_args_list], windows)
            padded = padding.clone()
            padded[0, :5] = 0
            self.both(model_of(family, **changes), attention_mask=padded)
            model = model_of(family, **changes)
            model.model.layers[0].self_attn.forward = model.model.layers[0].self_attn.forward  # it would not know windows
            self.both(model)

    def test_masks_with_arguments_by_position_are_the_models_own(self):
        from tunectl import _patch

        def own(*given, **named):
            return given, named

        for make in (_patch._causal_mask, lambda own, *given, **named: _patch._window_mask(own, own, *given, **named)):
            self.assertEqual(make(own, "config", attention_mask=None), (("config",), {"attention_mask": None}))

    def test_norms_of_one_plus_weight_in_short_dtypes(self):
        """They agree with the model's own, which rounds once at the end; 1 + weight in bf16 would not."""
        import torch
        import tunectl

        for dtype in (torch.bfloat16, torch.float16):
            norm = model_of("Gemma").to(dtype).model
            x = torch.randn(TOKENS, WIDTH).to(dtype)
            with torch.no_grad():
                norm.norm.weight.copy_(torch.randn(WIDTH) / 8)
                want = norm.norm(x)
                got = tunectl.patch(norm).norm(x)
                self.assertGreater((got == want).float().mean(), 0.99)
                torch.testing.assert_close(got, want, rtol=2 * torch.finfo(dtype).eps, atol=0)

    def test_logits(self):
        import torch
        import tunectl

        model = model_of("Qwen3")
        given = {"input_ids": tokens(), "labels": tokens()}
        want = model(**given).logits
        tunectl.patch(model)
        self.assertIsNone(model(**given).logits)
        self.assertEqual([one.shape for one in model(**given, return_dict=False, use_cache=False)], [()])
        self.same([model(**given, skip_logits=False).logits, model(input_ids=tokens()).logits], [want, want])
        self.assertEqual(model(**given, logits_to_keep=0, return_dict=False, skip_logits=False)[1].shape, want.shape)
        with self.assertRaises((RuntimeError, ValueError)):  # as without a patch
            model(**given, logits_to_keep=4)
        model.eval()
        self.same([model(**given).logits], [want])
        self.assertIsNone(model(**given, skip_logits=True).logits)
        tunectl.patch(tunectl.unpatch(model).train(), skip_logits=False)
        self.same([model(**given).logits], [want])
        self.assertEqual(tunectl.patched(model).layers["cross_entropy"], 1)
        self.assertNotIn("linear_cross_entropy", tunectl.patched(model).layers)
        self.assertIn("1 Qwen3ForCausalLM: its logits exist in training", tunectl.patched(model).left[0])

    def test_last_layers_that_do_more_make_logits(self):
        import torch
        import tunectl

        class Scaled(torch.nn.Linear):
            def forward(self, x):
                return super().forward(x) * 2

        def scale(model):
            model.lm_head.__class__ = Scaled

        def hook(model):
            model.lm_head.register_forward_hook(lambda layer, given, made: made * 2)

        def tie(model):
            model.lm_head.weight = model.model.embed_tokens.weight

        for change, is_skipped in ((scale, False), (hook, False), (tie, True)):
            with self.subTest(change.__name__):
                model = model_of()
                change(model)
                self.both(model)
                tunectl.patch(model)
                self.assertEqual(model(input_ids=tokens(), labels=tokens()).logits is None, is_skipped)
                self.assertEqual("linear_cross_entropy" in tunectl.patched(model).layers, is_skipped)
        capped = model_of("Gemma2", final_logit_softcapping=5.0)
        self.both(capped)
        self.both(model_of("Gemma2", final_logit_softcapping=None))

    def test_a_step_has_no_array_of_all_logits(self):
        import torch
        import tunectl

        model = model_of(vocab_size=1024, num_hidden_layers=1)
        ids = torch.randint(1, 1024, (16, 128), generator=torch.Generator().manual_seed(4))
        largest = []
        for _ in range(2):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
                model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
            events = profile.profiler.kineto_results.events()
            largest.append(max(one.nbytes() for one in events if one.name() == "[memory]"))
            tunectl.patch(model)
        self.assertGreaterEqual(largest[0], 16 * 128 * 1024 * 4)
        self.assertLessEqual(largest[1], 1024 * 1024 * 4)  # one chunk's

    def test_loss(self):
        import torch

        labels = tokens(5)
        labels[0, 3:9] = -100
        count = torch.tensor(11)
        ignored = torch.full_like(labels, -100)
        for given in ({"labels": labels}, {"labels": labels, "num_items_in_batch": count},
                      {"labels": labels, "num_items_in_batch": 11}, {"labels": ignored},
                      {"labels": tokens(), "shift_labels": labels}, {"labels": tokens(), "ignore_index": 7}):
            with self.subTest([*given]):
                self.both(model_of(), **given)

    def test_a_loss_of_ones_own_stays(self):
        import tunectl

        model = model_of()
        model.loss_function = lambda logits, labels, **_: logits.sum()
        want = step(model)
        self.same(step(tunectl.patch(model)), want)
        self.assertNotIn("cross_entropy", tunectl.patched(model).layers)
        self.equal(step(tunectl.unpatch(model)), want)

    def test_generate(self):
        import torch
        import tunectl

        prompts, mask = tokens()[:, :7], torch.ones(BATCH, 7, dtype=torch.long)
        padded = mask.clone()
        padded[0, :3] = 0
        for family in ("Llama", "Qwen3", "Gemma3"):
            for more in ({"attention_mask": mask}, {"attention_mask": padded},
                         {"attention_mask": mask, "cache_implementation": "static", "disable_compile": True},
                         {"attention_mask": mask, "use_cache": False}):
                with self.subTest(family, more=[*more]):
                    model = model_of(family).eval()
                    more = {"max_new_tokens": 6, "do_sample": False, "output_scores": True, "return_dict_in_generate": True,
                            **more}
                    want, got = model.generate(prompts, **more), tunectl.patch(model).generate(prompts, **more)
                    self.assertTrue(torch.equal(got.sequences, want.sequences))
                    self.same(got.scores, want.scores)

    def test_gradient_checkpointing(self):
        import tunectl

        model = model_of()
        want = step(model)
        model.gradient_checkpointing_enable()
        self.same(step(tunectl.patch(model), use_cache=False), want)

    def test_compiled(self):
        import torch
        import tunectl

        for family in ("Llama", "Mistral", "Gemma3"):
            with self.subTest(family):
                torch._dynamo.reset()
                model = model_of(family)
                want = step(model)
                compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
                self.same(step(model, compiled), want)
                tunectl.patch(compiled)  # after the compiler saw it
                self.assertTrue(tunectl.patched(model).layers)
                self.same(step(model, compiled), want)
                if family == "Llama":
                    with self.only_tuned():
                        self.same(step(model, compiled), want)
                self.equal(step(tunectl.unpatch(model), compiled), want)

    def test_a_compiled_step_calls_the_same_kernels(self):
        """Forward and backward; under torch.compile transformers would make masks, which attention's kernel does not take."""
        import torch
        import tunectl

        def operators(model, call):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                made = step(model, call, use_cache=False)
            return made, collections.Counter(one.name for one in profile.events() if one.name.startswith("tunectl::"))

        for family, changes in (("Llama", {}), ("Mistral", {"sliding_window": 4}), ("Gemma3", {"sliding_window": 4})):
            with self.subTest(family):
                torch._dynamo.reset()
                model = tunectl.patch(model_of(family, **changes))
                compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
                step(model, compiled, use_cache=False)
                want, eager = operators(model, model)
                got, called = operators(model, compiled)
                self.same(got, want)
                self.assertEqual(set(called), set(eager))
                gradients = {name: count for name, count in eager.items() if name.endswith("_gradient")}
                self.assertEqual({name: called[name] for name in gradients}, gradients)
                for kernel in ("attention", "rope"):
                    counts = {name: count for name, count in called.items() if name.startswith(f"tunectl::{kernel}_")}
                    self.assertEqual((sum(counts.values()), sum(map(gradients.__contains__, counts))), (4, len(counts) // 2))

    def test_other_precisions(self):
        import torch
        import tunectl

        for family in ("Llama", "Qwen3", "Gemma3"):
            model = model_of(family)
            with self.subTest(family, under="autocast"), torch.autocast("cpu", torch.bfloat16):
                want = step(model)
                self.same(step(tunectl.patch(model)), want, tolerance=3e-2)
                tunectl.unpatch(model)
            with self.subTest(family, under="bfloat16"):
                want = step(model.to(torch.bfloat16))
                self.same(step(tunectl.patch(model)), want, tolerance=6e-2)

    def test_copies_and_saved_models(self):
        import torch
        import tunectl

        model = tunectl.patch(model_of("Qwen3"))
        want, layers, file = step(model), tunectl.patched(model).layers, io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)):
            self.assertEqual(tunectl.patched(made).layers, layers)
            self.equal(step(made), want)
            tunectl.unpatch(made)
            self.assertEqual(tunectl.patched(made).layers, {})
            self.assertEqual(tunectl.patched(model).layers, layers)
        model.save_pretrained(self.path)
        plain = type(model).from_pretrained(self.path)
        self.assertEqual(tunectl.patched(plain).layers, {})
        self.same(step(plain.train()), want)
        plain.load_state_dict(model.state_dict())
        model.load_state_dict(plain.state_dict())

    def test_a_layer_that_computes_something_else_stays(self):
        import tunectl

        model = model_of()
        own = type(model.model.norm)

        class Shifted(own):
            def forward(self, hidden_states):
                return super().forward(hidden_states) + 1

        model.model.norm.__class__ = Shifted
        replaced = model.model.layers[0].mlp
        replaced.forward = lambda x: type(replaced).forward(replaced, x) * 2
        model.model.layers[1].input_layernorm.variance_epsilon = 1e-2
        self.both(model)
        report = tunectl.patched(tunectl.patch(model))
        self.assertEqual((report.layers["rms_norm"], report.layers["swiglu"]), (4, 1))
        self.assertIn("1 Shifted: it is no RMS norm", report.left)
        self.assertIn("1 LlamaMLP: something else has replaced its forward", report.left)

    def test_random_numbers_of_a_job_stay_the_same(self):
        import torch
        import tunectl

        model, state = model_of(), torch.random.get_rng_state()
        tunectl.patched(tunectl.patch(model))
        self.assertTrue(torch.equal(state, torch.random.get_rng_state()))

    def test_a_model_within_a_module(self):
        import torch
        import tunectl

        holder = torch.nn.ModuleDict({"inner": model_of()})
        self.assertEqual(tunectl.patched(tunectl.patch(holder)).layers["rms_norm"], 5)
        part = model_of().model
        self.assertEqual([*tunectl.patched(tunectl.patch(part)).layers], ["attention", "rope", "rms_norm", "swiglu"])

    def test_errors(self):
        import torch
        import transformers
        import tunectl

        class Bare(transformers.PreTrainedModel):
            config_class = transformers.LlamaConfig

            def __init__(self, config):
                super().__init__(config)
                self.only = torch.nn.Linear(2, 2)

        for wrong in ("meta-llama/Llama-2-7b", torch.nn.Linear(2, 2), config_of("Llama"), None):
            for function in (tunectl.patch, tunectl.unpatch, tunectl.patched):
                with self.assertRaisesRegex(TypeError, "is no model of transformers"):
                    function(wrong)
        with self.assertRaisesRegex(ValueError, "Bare has no layer that tunectl.ops can run$"):
            tunectl.patch(Bare(config_of("Llama")))


if __name__ == "__main__":
    unittest.main()
