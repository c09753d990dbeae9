"""Forms of tokens and keys by their makers, as facts: what each begins with, and what follows.

Sources: the rules of gitleaks (config/gitleaks.toml of 2026-07, MIT), the plugins of detect-secrets
1.5, and the makers' own documents for those that neither has (Groq, Tailscale, Replicate, xAI,
LangSmith, Supabase, Netlify, Telegram, Stripe's webhooks). Lengths are lower bounds, since makers
lengthen them. `secret_words.py` masks what has such a form wherever it stands.
"""

from __future__ import annotations

_HEX = "[0-9a-fA-F]"
_WORD = "[A-Za-z0-9]"
_ANY = r"[\w-]"
_BASE64 = "[A-Za-z0-9+/=]"

FORMS = (
    # models and data
    ("hf_", _WORD + "{16,}"),  # Hugging Face
    ("api_org_", _WORD + "{30,}"),
    ("sk-", r"(?=[\w-]*\d)[\w-]{16,}"),  # OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse
    ("sk_", r"(?=\w*\d)\w{20,}"),  # ElevenLabs, Clerk; Stripe: sk_live_...
    ("gsk_", _WORD + "{20,}"),  # Groq
    ("pplx-", _WORD + "{32,}"),  # Perplexity
    ("xai-", _WORD + "{32,}"),
    ("r8_", _WORD + "{32,}"),  # Replicate
    ("nvapi-", _ANY + "{16,}"),  # NVIDIA
    ("csk-", _WORD + "{32,}"),  # Cerebras
    ("tgp_v1_", _ANY + "{32,}"),  # Together
    ("tvly-", _ANY + "{20,}"),  # Tavily
    ("jina_", _ANY + "{40,}"),
    ("lsv2_", r"(?:pt|sk)_\w{32,}"),  # LangSmith
    ("wandb_v1_", _ANY + "{20,}"),
    # clouds
    ("AKIA", "[A-Z0-9]{16}"),  # AWS
    ("ASIA", "[A-Z0-9]{16}"),
    ("ABIA", "[A-Z0-9]{16}"),
    ("ACCA", "[A-Z0-9]{16}"),
    ("ABSK", _BASE64 + "{100,}"),
    ("bedrock-api-key-", _BASE64 + "{20,}"),
    ("amzn.mws.", r"[\w-]{32,}"),
    ("AIza", _ANY + "{30,}"),  # Google
    ("GOCSPX-", _ANY + "{20,}"),
    ("ya29.", r"[\w.-]{20,}"),
    ("1//0", _ANY + "{30,}"),
    ("LTAI", _WORD + "{12,}"),  # Alibaba
    ("AKID", _WORD + "{32,}"),  # Tencent
    ("dop_v1_", _HEX + "{32,}"),  # DigitalOcean
    ("doo_v1_", _HEX + "{32,}"),
    ("dor_v1_", _HEX + "{32,}"),
    ("dapi", _HEX + r"{32}(?:-\d)?\b"),  # Databricks
    ("dose", _HEX + r"{32}\b"),
    ("fo1_", _ANY + "{40,}"),  # Fly.io
    ("fm1a_", _BASE64 + "{40,}"),
    ("fm1r_", _BASE64 + "{40,}"),
    ("fm2_", _BASE64 + "{40,}"),
    ("HRKU-", _ANY + "{30,}"),  # Heroku
    ("tk-us-", _ANY + "{40,}"),  # Scalingo
    ("v1.0-", "[a-f0-9]{24}-[a-f0-9]{100,}"),  # Cloudflare
    ("nfp_", _WORD + "{32,}"),  # Netlify
    ("rnd_", _WORD + "{28,}"),  # Render
    ("sbp_", _HEX + "{32,}"),  # Supabase
    ("sb_secret_", _ANY + "{20,}"),
    ("pscale_tkn_", r"[\w=.-]{32,}"),  # PlanetScale
    ("pscale_oauth_", r"[\w=.-]{32,}"),
    ("pscale_pw_", r"[\w=.-]{32,}"),
    ("pul-", _HEX + "{32,}"),  # Pulumi
    ("hvs.", _ANY + "{20,}"),  # Vault
    ("hvb.", _ANY + "{20,}"),
    ("hvr.", _ANY + "{20,}"),
    ("tskey-", _ANY + "{16,}"),  # Tailscale
    ("dp.pt.", _WORD + "{40,}"),  # Doppler
    ("dp.st.", r"[\w.]{40,}"),
    ("sha256~", _ANY + "{43}"),  # OpenShift
    ("4b1d", _WORD + r"{38}\b"),  # ClickHouse
    ("pnu_", _WORD + "{30,}"),  # Prefect
    # code and packages
    ("ghp_", _WORD + "{16,}"),  # GitHub
    ("gho_", _WORD + "{16,}"),
    ("ghu_", _WORD + "{16,}"),
    ("ghs_", _WORD + "{16,}"),
    ("ghr_", _WORD + "{16,}"),
    ("github_pat_", r"\w{16,}"),
    ("glpat-", r"[\w.-]{16,}"),  # GitLab
    ("glcbt-", _ANY + "{16,}"),
    ("gldt-", _ANY + "{16,}"),
    ("glffct-", _ANY + "{16,}"),
    ("glft-", _ANY + "{16,}"),
    ("glimt-", _ANY + "{16,}"),
    ("glagent-", _ANY + "{16,}"),
    ("gloas-", _ANY + "{16,}"),
    ("glptt-", _ANY + "{16,}"),
    ("glrt-", r"[\w.-]{16,}"),
    ("glsoat-", _ANY + "{16,}"),
    ("GR1348941", _ANY + "{16,}"),
    ("ATATT3", r"[\w=-]{32,}"),  # Atlassian
    ("ATBB", _WORD + "{28,}"),
    ("npm_", _WORD + "{30,}"),
    ("pypi-", _ANY + "{16,}"),
    ("rubygems_", _HEX + "{32,}"),
    ("oy2", r"[a-z0-9]{43}\b"),  # NuGet
    ("CLOJARS_", _WORD + "{40,}"),
    ("AKCp", _WORD + "{50,}"),  # Artifactory
    ("cmVmd", _WORD + "{59}"),
    ("dckr_pat_", _ANY + "{16,}"),  # Docker
    ("dckr_oat_", _ANY + "{16,}"),
    ("sgp_", r"\w{40,}"),  # Sourcegraph
    ("API-", r"(?=[A-Z0-9]*\d)[A-Z0-9]{26}\b"),  # Octopus
    # messages and mail
    ("xoxa-", _ANY + "{10,}"),  # Slack
    ("xoxb-", _ANY + "{10,}"),
    ("xoxc-", _ANY + "{10,}"),
    ("xoxd-", r"[\w%-]{10,}"),
    ("xoxe-", _ANY + "{10,}"),
    ("xoxe.", r"[\w.-]{10,}"),
    ("xoxo-", _ANY + "{10,}"),
    ("xoxp-", _ANY + "{10,}"),
    ("xoxr-", _ANY + "{10,}"),
    ("xoxs-", _ANY + "{10,}"),
    ("xapp-", r"\d-[\w-]{10,}"),
    ("SG.", r"[\w-]{16,}\.[\w-]{16,}"),  # SendGrid
    ("xkeysib-", _ANY + "{40,}"),  # Brevo
    ("key-", _HEX + r"{32}\b"),  # Mailgun
    ("SK", r"[0-9a-f]{32}\b"),  # Twilio
    ("re_", r"(?=\w*\d)(?=\w*[A-Z])[A-Za-z0-9]{6,}_[A-Za-z0-9]{16,}"),  # Resend
    # payment and shops
    ("sk_live_", _WORD + "{10,}"),  # Stripe
    ("sk_test_", _WORD + "{10,}"),
    ("sk_prod_", _WORD + "{10,}"),
    ("rk_live_", _WORD + "{10,}"),
    ("rk_test_", _WORD + "{10,}"),
    ("rk_prod_", _WORD + "{10,}"),
    ("whsec_", _BASE64 + "{20,}"),
    ("sq0atp-", _ANY + "{20,}"),  # Square
    ("sq0csp-", _ANY + "{40,}"),
    ("EAAA", _ANY + "{22,}"),
    ("shpat_", _HEX + "{32}"),  # Shopify
    ("shpca_", _HEX + "{32}"),
    ("shppa_", _HEX + "{32}"),
    ("shpss_", _HEX + "{32}"),
    ("shippo_live_", _HEX + "{40}"),
    ("shippo_test_", _HEX + "{40}"),
    ("FLWSECK_TEST-", r"[\w-]{12,}"),  # Flutterwave
    ("FLWSECK-", r"[\w-]{12,}"),
    ("duffel_live_", r"[\w=-]{40,}"),
    ("duffel_test_", r"[\w=-]{40,}"),
    ("EZAK", _WORD + "{54}"),  # EasyPost
    ("EZTK", _WORD + "{54}"),
    # watching, documents, the rest
    ("glsa_", _WORD + "{32}_" + _HEX + "{8}"),  # Grafana
    ("glc_", _BASE64 + "{32,}"),
    ("NRAK-", "[A-Z0-9]{20,}"),  # New Relic
    ("sntrys_", _ANY + "{20,}"),  # Sentry
    ("sntryu_", _HEX + "{40,}"),
    ("dt0c01.", r"\w{24}\.\w{40,}"),  # Dynatrace
    ("dt0s16.", r"\w{8,}\.\w{40,}"),
    ("phx_", _WORD + "{32,}"),  # PostHog
    ("lin_api_", _WORD + "{32,}"),  # Linear
    ("ntn_", _WORD + "{40,}"),  # Notion
    ("secret_", r"(?=\w*\d)(?=\w*[A-Z])[A-Za-z0-9]{43}"),
    ("figd_", _ANY + "{32,}"),  # Figma
    ("PMAK-", _HEX + "{24}-" + _HEX + "{34}"),  # Postman
    ("rdme_", "[a-z0-9]{60,}"),
    ("ops_eyJ", _BASE64 + "{40,}"),  # 1Password
    ("A3-", "[A-Z0-9]{6}-[A-Z0-9-]{20,}"),
    ("AGE-SECRET-KEY-1", "[A-Z0-9]{40,}"),
    ("p8e-", _WORD + "{32}"),  # Adobe
    ("ico-", _WORD + "{32}"),  # Infracost
    ("pat", _WORD + r"{14}\." + _HEX + "{64}"),  # Airtable
    ("pat.", r"[\w-]{22}\.\w{24}\.\w{20}"),  # Harness
    ("sat.", r"[\w-]{22}\.\w{24}\.\w{20}"),
    ("fio-u-", r"[\w=-]{40,}"),
    ("sm_aat_", _WORD + "{16}"),  # SettleMint
    ("sm_pat_", _WORD + "{16}"),
    ("sm_sat_", _WORD + "{16}"),
    ("eyJ", r"[\w-]{8,4096}+\.[\w-]{8,4096}+(?:\.[\w-]*+)*"),  # a JSON web token
)
"""What a token begins with, and a regular expression of the rest."""

FORMS_WITHIN = (
    (":AA", r"\b\d{8,10}:AA[\w-]{32,33}\b"),  # Telegram
    (".atlasv1.", r"\b\w{14}\.atlasv1\.[\w=-]{40,}"),  # Terraform
    ("Q~", r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.-]{31,34}"),  # Azure
    ("_mmk", r"\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b"),  # MaxMind
    ("hooks.slack.com/", r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[\w/+]{20,}"),
    ("/api/webhooks/", r"(?<=/api/webhooks/)\d{15,}/[\w-]{40,}"),  # Discord
    ("/webhookb2/", r"(?<=/webhookb2/)[\w@/-]{40,}"),  # Teams
)
"""Others: a part of such a text, and the whole as a regular expression."""
