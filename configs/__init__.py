"""The config: models, each list of choices once, and how files, flags and --set become one.

base         the strict model; choices that several keys share
tokenize     TokenizeConfig, InputConfig; sections: chat, objective, budget, modalities,
             encode, pack
modalities   VisionConfig, AudioConfig: codes as blocks of ids
objective    ObjectiveConfig: fill in the middle, span corruption, prefix-LM
budget       BudgetConfig: how many tokens documents and fields may have
pack         PackConfig
encode       EncodeConfig
run          RunConfig: corpora, splits, lengths of rows
flags        messages about flags, for those who have keys
load         preset or file  <  --set a.b=c  <  flags
*.yaml       presets: lwm, pretrain, instruct

Import from the modules: a worker of `pack` needs one model, not all of them.
"""
